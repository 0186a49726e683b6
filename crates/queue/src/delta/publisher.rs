//! The way out: one box everything is thrown into, and one task that empties it into Redis.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_domain::event::{Live, LiveItem};
use houston_domain::id::AgentableId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::merge::merge;
use super::payload;
use super::topics::Channel;
use crate::connection::{Redis, Wire, until_stopped};
use crate::error::Failure;
use crate::health::Line;

/// How much may wait for the connection.
const MOST_ITEMS: usize = 8_192;
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How many agentables are remembered whose committed events did not get through.
const MOST_MISSED: usize = 8_192;
/// How much goes into one round trip at most, one item excepted.
const BATCH_ITEMS: usize = 512;
const BATCH_BYTES: usize = 1024 * 1024;

type Outgoing = (Channel, Arc<LiveItem>);

/// What waits for the publisher.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
    pub(super) sent: AtomicU64,
    pub(super) dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    items: Vec<Outgoing>,
    bytes: usize,
    /// Agentables whose committed events were dropped: streams in other processes are sent a nudge to read Postgres.
    missed: HashSet<AgentableId>,
    closed: bool,
}

impl Outbox {
    pub(super) fn push(&self, channel: Channel, item: Arc<LiveItem>, weight: usize) {
        let mut state = self.lock();
        let full = state.items.len() >= MOST_ITEMS || state.bytes.saturating_add(weight) > MOST_BYTES;
        if full || state.closed {
            self.drop_one(&mut state, &item);
            return;
        }
        state.bytes += weight;
        state.items.push((channel, item));
        // The task takes everything that waits at once, so one notification is enough.
        let first = state.items.len() == 1;
        drop(state);
        if first {
            self.changed.notify_one();
        }
    }

    /// Everything that waits; nudges for what was missed come first.
    fn take(&self) -> Vec<Outgoing> {
        let mut state = self.lock();
        state.bytes = 0;
        let items = std::mem::take(&mut state.items);
        if state.missed.is_empty() {
            return items;
        }
        let nudge =
            |agentable| (Channel::Live(agentable), Arc::new(LiveItem { agentable, live: Live::Nudge }));
        std::mem::take(&mut state.missed).into_iter().map(nudge).chain(items).collect()
    }

    /// Forgets `items`, but not whom they were about.
    fn miss(&self, items: impl Iterator<Item = Outgoing>) {
        let mut state = self.lock();
        for (_, item) in items {
            self.drop_one(&mut state, &item);
        }
    }

    fn drop_one(&self, state: &mut State, item: &LiveItem) {
        self.dropped.fetch_add(1, Relaxed);
        let durable = matches!(item.live, Live::Committed(_) | Live::Nudge);
        if durable && state.missed.len() < MOST_MISSED {
            state.missed.insert(item.agentable);
        }
    }

    /// Takes nothing more.
    fn close(&self) {
        self.lock().closed = true;
    }

    fn is_empty(&self) -> bool {
        let state = self.lock();
        state.items.is_empty() && state.missed.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that empties the outbox.
pub(super) struct Publisher {
    pub(super) redis: Redis,
    pub(super) process: Uuid,
    pub(super) outbox: Arc<Outbox>,
    pub(super) line: Line,
    pub(super) stop: CancellationToken,
}

impl Publisher {
    /// Publishes until `stop`, and then in one last try what was thrown in before it.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        until_stopped(&stop, self.publish_all()).await;
        self.outbox.close();
    }

    async fn publish_all(&mut self) {
        let mut wire = Wire::new(self.redis.clone());
        let mut outcome = wire.connect().await;
        loop {
            if let Err(failure) = outcome {
                // What waits would be stale by then.
                self.outbox.miss(self.outbox.take().into_iter());
                let pause = self.line.failed(&failure);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.stop.cancelled() => return,
                }
                outcome = wire.connect().await;
                continue;
            }
            self.line.works();
            if !self.wait().await {
                return;
            }
            outcome = self.publish(&mut wire).await;
        }
    }

    /// Waits for items; `false` when none can come any more.
    async fn wait(&self) -> bool {
        while self.outbox.is_empty() {
            if self.stop.is_cancelled() {
                return false;
            }
            tokio::select! {
                () = self.outbox.changed.notified() => {}
                () = self.stop.cancelled() => self.outbox.close(),
            }
        }
        true
    }

    /// Publishes all that waits, in as few round trips as fit.
    async fn publish(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        let mut items = merge(self.outbox.take()).into_iter().peekable();
        while items.peek().is_some() {
            let mut commands = redis::pipe();
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while batch.len() < BATCH_ITEMS
                && bytes < BATCH_BYTES
                && let Some((channel, item)) = items.next()
            {
                if let Some(payload) = payload::encode(self.process, &item) {
                    bytes += payload.len();
                    commands.cmd("PUBLISH").arg(channel.name(&self.redis)).arg(payload).ignore();
                }
                batch.push((channel, item));
            }
            if let Err(failure) = wire.run(&commands).await {
                self.outbox.miss(batch.into_iter().chain(items));
                return Err(failure);
            }
            self.outbox.sent.fetch_add(batch.len() as u64, Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::event::{Delta, Part};

    use super::*;

    fn throw(outbox: &Outbox, agentable: u128, live: Live) {
        let agentable = AgentableId(Uuid::from_u128(agentable));
        let weight = payload::weight(&live);
        outbox.push(Channel::Live(agentable), Arc::new(LiveItem { agentable, live }), weight);
    }

    #[test]
    fn what_does_not_fit_is_made_good_by_a_nudge_if_it_was_durable() {
        let outbox = Outbox::default();
        let message_id = Uuid::from_u128(9).into();
        let delta =
            Delta { message_id, part: Part::Message, reasoning_chars: 0, offset: 0, text: "x".repeat(1024) };
        while outbox.dropped.load(Relaxed) == 0 {
            throw(&outbox, 1, Live::Delta(delta.clone()));
        }
        assert!(outbox.lock().items.len() <= MOST_ITEMS && outbox.lock().bytes <= MOST_BYTES);
        throw(&outbox, 2, Live::Delta(delta));
        for _ in 0..3 {
            throw(&outbox, 3, Live::Committed(Vec::new()));
            throw(&outbox, 3, Live::Nudge);
        }
        let taken = outbox.take();
        assert_eq!(taken[0].1.live, Live::Nudge);
        assert_eq!(taken[0].1.agentable.0, Uuid::from_u128(3));
        assert!(taken[1..].iter().all(|(_, item)| item.agentable.0 == Uuid::from_u128(1)));
        assert!(outbox.is_empty());
    }
}
