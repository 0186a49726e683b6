//! Publishes items to Redis: a bounded outbox, and one task that sends its items. Deltas that wait for it are merged, so that
//! fewer and longer ones are sent.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_domain::event::{Delta, Live, LiveItem};
use houston_domain::id::AgentableId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::payload;
use super::subscription::Channel;
use crate::connection::{PipelineConnection, Redis, run_until_stopped};
use crate::error::Failure;
use crate::health::ConnectionMonitor;

/// Limits of the outbox: items and bytes.
const MAX_ITEMS: usize = 8_192;
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of agentables recorded as having missed committed events.
const MAX_MISSED: usize = 8_192;
/// Limits of one round trip: items and bytes. A single item may be larger.
const BATCH_ITEMS: usize = 512;
const BATCH_BYTES: usize = 1024 * 1024;

/// Maximum length of a merged delta's text in bytes, unless a single delta is longer.
const MAX_MERGED_BYTES: usize = 16 * 1024;

type Outgoing = (Channel, Arc<LiveItem>);

/// Items that wait for the publisher.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: Vec<Outgoing>,
    bytes: usize,
    /// Agentables whose committed events were dropped: streams in other processes are sent a nudge to read Postgres.
    missed: HashSet<AgentableId>,
    closed: bool,
}

impl Waiting {
    fn drop_one(&mut self, item: &LiveItem) {
        let durable = matches!(item.live, Live::Committed(_) | Live::Nudge);
        if durable && self.missed.len() < MAX_MISSED {
            self.missed.insert(item.agentable);
        }
    }
}

impl Outbox {
    pub(super) fn push(&self, channel: Channel, item: Arc<LiveItem>, weight: usize) {
        let mut state = self.lock();
        let full = state.items.len() >= MAX_ITEMS || state.bytes.saturating_add(weight) > MAX_BYTES;
        if full || state.closed {
            return state.drop_one(&item);
        }
        state.bytes += weight;
        state.items.push((channel, item));
        // The task takes all items at once, so one notification is enough.
        let first = state.items.len() == 1;
        drop(state);
        if first {
            self.changed.notify_one();
        }
    }

    /// Takes all waiting items, preceded by nudges for agentables that missed events.
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

    /// Drops `items` and records their agentables as having missed events.
    fn record_missed(&self, items: impl Iterator<Item = Outgoing>) {
        let mut state = self.lock();
        for (_, item) in items {
            state.drop_one(&item);
        }
    }

    /// Accepts no more items.
    fn close(&self) {
        self.lock().closed = true;
    }

    fn is_empty(&self) -> bool {
        let state = self.lock();
        state.items.is_empty() && state.missed.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that sends the items of the outbox.
pub(super) struct Publisher {
    pub(super) redis: Redis,
    pub(super) process: Uuid,
    pub(super) outbox: Arc<Outbox>,
    pub(super) monitor: ConnectionMonitor,
    pub(super) stop: CancellationToken,
}

impl Publisher {
    /// Publishes until `stop`; then sends, in one last attempt, what was queued before.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        run_until_stopped(&stop, self.publish_all()).await;
        self.outbox.close();
    }

    async fn publish_all(&mut self) {
        let mut connection = PipelineConnection::new(self.redis.clone());
        let mut outcome = connection.connect().await;
        loop {
            if let Err(failure) = outcome {
                // The waiting items would be stale after the reconnect.
                self.outbox.record_missed(self.outbox.take().into_iter());
                self.monitor.rest(&failure, &self.stop).await;
                if self.stop.is_cancelled() {
                    return;
                }
                outcome = connection.connect().await;
                continue;
            }
            self.monitor.succeeded();
            if !self.wait().await {
                return;
            }
            outcome = self.publish(&mut connection).await;
        }
    }

    /// Waits for items; `false` if the outbox is closed and empty.
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

    /// Publishes all waiting items in as few round trips as the limits allow.
    async fn publish(&mut self, connection: &mut PipelineConnection) -> Result<(), Failure> {
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
            if let Err(failure) = connection.run(&commands).await {
                self.outbox.record_missed(batch.into_iter().chain(items));
                return Err(failure);
            }
        }
        Ok(())
    }
}

/// Joins neighbouring deltas of one channel if the second continues the first: same message, same part, and it begins
/// where the first ends. Keeps the order within each channel, but not between channels.
fn merge(items: Vec<Outgoing>) -> Vec<Outgoing> {
    let mut merged: Vec<Outgoing> = Vec::with_capacity(items.len());
    // For each channel: the index of its latest item, and the end of its text if it is a delta.
    let mut latest: HashMap<Channel, (usize, Option<u32>)> = HashMap::new();
    for (channel, item) in items {
        let Live::Delta(delta) = &item.live else {
            latest.insert(channel, (merged.len(), None));
            merged.push((channel, item));
            continue;
        };
        let end = end(delta);
        if let Some((at, Some(before))) = latest.get_mut(&channel) {
            let last = &mut merged[*at].1;
            if continues(&last.live, *before, delta)
                // Clones the item if local streams share it.
                && let Live::Delta(last) = &mut Arc::make_mut(last).live
            {
                last.text.push_str(&delta.text);
                *before = end;
                continue;
            }
        }
        latest.insert(channel, (merged.len(), Some(end)));
        merged.push((channel, item));
    }
    merged
}

fn end(delta: &Delta) -> u32 {
    let characters = u32::try_from(delta.text.chars().count()).unwrap_or(u32::MAX);
    delta.offset.saturating_add(characters)
}

fn continues(last: &Live, end: u32, next: &Delta) -> bool {
    let Live::Delta(last) = last else { return false };
    last.message_id == next.message_id
        && last.part == next.part
        && last.reasoning_chars == next.reasoning_chars
        && end == next.offset
        && last.text.len() + next.text.len() <= MAX_MERGED_BYTES
}

#[cfg(test)]
mod tests {
    use houston_domain::event::{Delta, Part};
    use houston_domain::id::{AgentableId, MessageId};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn push(outbox: &Outbox, agentable: u128, live: Live) {
        let agentable = AgentableId(Uuid::from_u128(agentable));
        let weight = payload::weight(&live);
        outbox.push(Channel::Live(agentable), Arc::new(LiveItem { agentable, live }), weight);
    }

    #[test]
    fn dropped_durable_items_are_replaced_by_a_nudge() {
        let outbox = Outbox::default();
        let message_id = Uuid::from_u128(9).into();
        let delta = Delta {
            message_id,
            part: Part::Message,
            reasoning_chars: 0,
            offset: 0,
            text: "x".repeat(1024),
            is_draft: false,
        };
        let mut full = None;
        while full != Some(outbox.lock().items.len()) {
            full = Some(outbox.lock().items.len());
            push(&outbox, 1, Live::Delta(delta.clone()));
        }
        assert!(outbox.lock().items.len() <= MAX_ITEMS && outbox.lock().bytes <= MAX_BYTES);
        push(&outbox, 2, Live::Delta(delta));
        for _ in 0..3 {
            push(&outbox, 3, Live::Committed(Vec::new()));
            push(&outbox, 3, Live::Nudge);
        }
        let taken = outbox.take();
        assert_eq!(taken[0].1.live, Live::Nudge);
        assert_eq!(taken[0].1.agentable.0, Uuid::from_u128(3));
        assert!(taken[1..].iter().all(|(_, item)| item.agentable.0 == Uuid::from_u128(1)));
        assert!(outbox.is_empty());
    }

    /// Everything a stream can observe: deltas as single characters, other items as they are.
    fn observable(
        items: &[(Channel, Arc<LiveItem>)],
        channel: Channel,
    ) -> Vec<(Option<Delta>, Option<Live>)> {
        let mut observable: Vec<(Option<Delta>, Option<Live>)> = Vec::new();
        for (_, item) in items.iter().filter(|(of, _)| *of == channel) {
            let Live::Delta(delta) = &item.live else {
                observable.push((None, Some(item.live.clone())));
                continue;
            };
            // One character at a time: merging must not be observable.
            for (i, character) in delta.text.chars().enumerate() {
                let offset = delta.offset + u32::try_from(i).unwrap();
                observable.push((Some(Delta { offset, text: character.into(), ..delta.clone() }), None));
            }
        }
        observable
    }

    fn channel(n: u8) -> Channel {
        Channel::Live(AgentableId(Uuid::from_u128(n.into())))
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write { channel: u8, text: String },
        NextPart { channel: u8 },
        Restart { channel: u8 },
        Nudge { channel: u8 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0..3u8, "[a-cäß€𝄞]{1,6}").prop_map(|(channel, text)| Step::Write { channel, text }),
            1 => (0..3u8).prop_map(|channel| Step::NextPart { channel }),
            1 => (0..3u8).prop_map(|channel| Step::Restart { channel }),
            1 => (0..3u8).prop_map(|channel| Step::Nudge { channel }),
        ];
        proptest::collection::vec(step, 0..60)
    }

    fn play(steps: Vec<Step>) -> Vec<(Channel, Arc<LiveItem>)> {
        let mut parts = [(0u128, 0u32); 3];
        let mut items = Vec::new();
        for step in steps {
            let (n, live) = match step {
                Step::NextPart { channel } => {
                    parts[usize::from(channel)] = (parts[usize::from(channel)].0 + 1, 0);
                    continue;
                }
                Step::Restart { channel } => {
                    parts[usize::from(channel)].1 = 0;
                    continue;
                }
                Step::Nudge { channel } => (channel, Live::Nudge),
                Step::Write { channel, text } => {
                    let (message, offset) = &mut parts[usize::from(channel)];
                    let delta = Delta {
                        message_id: MessageId(Uuid::from_u128(*message / 2)),
                        part: if *message % 2 == 0 { Part::Reasoning } else { Part::Message },
                        reasoning_chars: 0,
                        offset: *offset,
                        text,
                        is_draft: false,
                    };
                    *offset = end(&delta);
                    (channel, Live::Delta(delta))
                }
            };
            let agentable = AgentableId(Uuid::from_u128(n.into()));
            items.push((channel(n), Arc::new(LiveItem { agentable, live })));
        }
        items
    }

    proptest! {
        #[test]
        fn merging_changes_no_text_and_no_order(steps in steps()) {
            let items = play(steps);
            let merged = merge(items.clone());
            for n in 0..3 {
                prop_assert_eq!(observable(&items, channel(n)), observable(&merged, channel(n)));
            }
            prop_assert!(merged.len() <= items.len());
        }
    }

    #[test]
    fn merging_does_not_change_shared_originals() {
        let steps = (0..1_000).map(|_| Step::Write { channel: 0, text: "ab".into() });
        let items = play(steps.collect());
        let merged = merge(items.clone());
        assert_eq!(merged.len(), 1);
        let Live::Delta(first) = &items[0].1.live else { panic!("not a delta") };
        assert_eq!(first.text, "ab");
    }
}
