//! Feeds and check-ins, which start runs at a certain time. Every worker searches for due ones. The transaction that starts
//! one also sets the next time, so each starts once; one that was missed while no worker was alive starts once, too.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::event::Live;
use houston_domain::id::{AgentableId, Ids};
use houston_domain::mode::Mode;
use houston_domain::schedule::Schedules;
use houston_queue::DeltaBus;
use houston_store::RunStore;
use houston_store::check_in::CheckInOutcome;
use houston_store::feed::{FeedIds, FeedOutcome};
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;

/// Searches for due feeds and check-ins.
pub(crate) struct Scheduler {
    pub(crate) store: RunStore,
    pub(crate) bus: DeltaBus,
    pub(crate) ids: Arc<Ids>,
    pub(crate) schedules: Schedules,
    /// The kinds that write feeds.
    pub(crate) feed_kinds: Vec<String>,
    pub(crate) stop: CancellationToken,
}

/// The kinds whose runs may be started by `mode`.
pub(crate) fn kinds_with<'t>(
    types: impl IntoIterator<Item = &'t houston_domain::agentable::AgentType>,
    mode: Mode,
) -> Vec<String> {
    let has = types.into_iter().filter(|agent_type| agent_type.modes.contains(&mode));
    has.map(|agent_type| agent_type.kind.clone()).collect()
}

/// What to search for.
#[derive(Debug, Clone, Copy)]
enum Due {
    Feeds,
    CheckIns,
}

impl Scheduler {
    /// Searches until stopped.
    pub(crate) async fn run(self) {
        tokio::join!(self.poll(Due::Feeds), self.poll(Due::CheckIns));
    }

    /// Searches periodically; after a full batch the next search follows within 100 ms.
    async fn poll(&self, due: Due) {
        let poll = match due {
            Due::Feeds => self.schedules.feed.poll,
            Due::CheckIns => self.schedules.check_in.poll,
        };
        loop {
            // Up to a fifth shorter than configured, so that workers do not search at the same time.
            let early = rand::rng().random_range(0..=poll.every_ms / 5);
            let mut pause = Duration::from_millis(poll.every_ms.saturating_sub(early));
            let looked = match due {
                Due::Feeds => self.feeds().await,
                Due::CheckIns => self.check_ins().await,
            };
            match looked {
                Ok(true) => pause = pause.min(Duration::from_millis(100)),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, ?due, "could not search for due feeds or check-ins; trying again")
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn feeds(&self) -> houston_store::Result<bool> {
        let config = &self.schedules.feed;
        if config.times.is_empty() {
            return Ok(false);
        }
        let due = self.store.due_feeds(config.poll.batch).await?;
        for user in &due {
            if self.stop.is_cancelled() {
                return Ok(false);
            }
            let ids = FeedIds { message: self.ids.beside(user.1), run: self.ids.beside(user.1) };
            let outcome = self.store.begin_feed(*user, &self.feed_kinds, config, ids).await?;
            tracing::debug!(user = %user.1, ?outcome, "a feed was due");
            if let FeedOutcome::Started { agentable, .. } = outcome {
                self.announce(agentable);
            }
        }
        Ok(i64::try_from(due.len()).is_ok_and(|count| count >= config.poll.batch))
    }

    async fn check_ins(&self) -> houston_store::Result<bool> {
        let config = &self.schedules.check_in;
        let due = self.store.due_check_ins(config.poll.batch).await?;
        for id in &due {
            if self.stop.is_cancelled() {
                return Ok(false);
            }
            let (message, run) = (self.ids.beside(*id), self.ids.beside(*id));
            let outcome = self.store.begin_check_in(*id, config, message, run).await?;
            tracing::debug!(check_in = %id, ?outcome, "a check-in was due");
            if let CheckInOutcome::Posted(agentable) = outcome {
                self.announce(agentable);
            }
        }
        Ok(i64::try_from(due.len()).is_ok_and(|count| count >= config.poll.batch))
    }

    /// Wakes open streams of the agentable. Workers learn of the run by `NOTIFY`.
    fn announce(&self, agentable: AgentableId) {
        self.bus.publish(agentable, Live::Nudge);
    }
}
