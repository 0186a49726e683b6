//! The sweep: searches Postgres for agentables whose hint was lost, and sends another one.

use std::collections::BTreeMap;
use std::time::Duration;

use houston_domain::agentable::Urgency;
use houston_domain::id::UserId;
use houston_faults::mutation::{self, Mutation};
use houston_queue::{Hint, HintHealth, HintSender, Lane, LocalHints};
use houston_store::RunStore;
use houston_store::sweep::Due;
use rand::RngExt as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::SweepConfig;

/// Searches Postgres periodically.
pub(crate) struct Sweeper {
    pub(crate) store: RunStore,
    pub(crate) hints: HintSender,
    pub(crate) local: LocalHints,
    pub(crate) redis: HintHealth,
    pub(crate) urgencies: BTreeMap<String, Urgency>,
    pub(crate) config: SweepConfig,
    pub(crate) stop: CancellationToken,
}

impl Sweeper {
    /// Sweeps until stopped; immediately whenever `now` is notified.
    pub(crate) async fn run(self, now: &Notify) {
        if mutation::is(Mutation::Sweep) {
            return;
        }
        let (mut after, mut failing) = (None, false);
        loop {
            match self.sweep(after).await {
                Ok(last) => {
                    after = last;
                    if std::mem::take(&mut failing) {
                        tracing::info!("postgres answers again; the sweep continues");
                    }
                }
                Err(error) => {
                    // One warning per outage.
                    if std::mem::replace(&mut failing, true) {
                        tracing::debug!(%error, "the sweep still fails");
                    } else {
                        tracing::warn!(%error, "the sweep failed; trying again");
                    }
                    after = None;
                }
            }
            // A full page is followed by another one soon; the pause lets workers take the hints.
            let pause = if after.is_some() { Duration::from_millis(100) } else { self.pause() };
            tokio::select! {
                () = self.stop.cancelled() => return,
                // A worker died: start again, with its agentables first.
                () = now.notified() => after = None,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The pause between two sweeps: up to a fifth shorter than configured, so that workers do not sweep at the same time.
    fn pause(&self) -> Duration {
        let every = if self.redis.is_up() { self.config.every_ms } else { self.config.without_redis_ms };
        Duration::from_millis(every.saturating_sub(rand::rng().random_range(0..=every / 5)))
    }

    /// Wakes runs whose time has come, and sends hints for one page of agentables; the first page begins with those of dead workers. Returns where the next page
    /// begins, if there is one.
    async fn sweep(&self, after: Option<UserId>) -> houston_store::Result<Option<UserId>> {
        let limit = self.config.limit;
        if after.is_none() {
            self.store.wake_waiting(limit).await?;
            self.store.expire_questions(limit).await?;
        }
        let orphans = if after.is_none() { self.store.orphans(limit).await? } else { Vec::new() };
        let found = i64::try_from(orphans.len()).unwrap_or(limit);
        let page = self.store.due(after, (limit - found).max(1)).await?;
        orphans.iter().chain(&page.due).for_each(|one| self.send_hint(one));
        Ok(page.next)
    }

    fn send_hint(&self, due: &Due) {
        let hint = Hint::run(due.agentable);
        if self.redis.is_up() {
            self.hints.send(self.lane(&due.kind), hint);
        } else {
            // May fail when the queue is full or closed: the next sweep finds the agentable again.
            let _ = self.local.try_send(self.lane(&due.kind), hint);
        }
    }

    fn lane(&self, kind: &str) -> Lane {
        self.urgencies.get(kind).copied().unwrap_or_default().into()
    }
}
