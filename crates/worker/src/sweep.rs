//! The sweep: what a lost hint forgot is found in Postgres and rung again.

use std::collections::BTreeMap;
use std::time::Duration;

use houston_domain::agentable::Urgency;
use houston_domain::id::AgentableId;
use houston_queue::{Hint, HintSender, Lane, LocalHints, RedisHealth};
use houston_store::Store;
#[cfg(feature = "fault-injection")]
use houston_store::mutation::{self, Mutation};
use houston_store::sweep::Due;
use rand::Rng;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::SweepConfig;

/// Searches Postgres, again and again.
pub(crate) struct Sweeper {
    pub(crate) store: Store,
    pub(crate) hints: HintSender,
    pub(crate) local: LocalHints,
    pub(crate) redis: RedisHealth,
    pub(crate) urgencies: BTreeMap<String, Urgency>,
    pub(crate) config: SweepConfig,
    pub(crate) stop: CancellationToken,
}

impl Sweeper {
    /// Sweeps until stopped; at once whenever `now` is rung.
    pub(crate) async fn run(self, now: &Notify) {
        #[cfg(feature = "fault-injection")]
        if mutation::is(Mutation::Sweep) {
            return;
        }
        let mut after = None;
        loop {
            match self.sweep(after).await {
                Ok(last) => after = last,
                Err(error) => {
                    tracing::warn!(%error, "the sweep failed");
                    after = None;
                }
            }
            // A full page wants the next one soon; the pause lets workers take what was rung.
            let pause = if after.is_some() { Duration::from_millis(100) } else { self.pause() };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = now.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Up to a fifth shorter than set, so that the workers do not sweep in step.
    fn pause(&self) -> Duration {
        let every = if self.redis.is_up() { self.config.every_ms } else { self.config.without_redis_ms };
        Duration::from_millis(every.saturating_sub(rand::rng().random_range(0..=every / 5)))
    }

    /// One page. Returns where the next one begins, if this one was full.
    async fn sweep(&self, after: Option<AgentableId>) -> houston_store::Result<Option<AgentableId>> {
        let due = self.store.due(after, self.config.limit).await?;
        for one in &due {
            self.ring(one);
        }
        let full = i64::try_from(due.len()).unwrap_or(i64::MAX) >= self.config.limit;
        Ok(due.last().filter(|_| full).map(|last| last.agentable))
    }

    fn ring(&self, due: &Due) {
        let hint = Hint::run(due.agentable);
        if self.redis.is_up() {
            self.hints.send(self.lane(&due.kind), hint);
        } else {
            // Refused when it is full or shut: the next sweep finds it again.
            let _ = self.local.try_send(hint);
        }
    }

    fn lane(&self, kind: &str) -> Lane {
        match self.urgencies.get(kind) {
            Some(Urgency::Background) => Lane::Background,
            _ => Lane::Interactive,
        }
    }
}

/// Hears of messages posted in other programs' transactions, until stopped.
pub(crate) async fn listen(store: Store, local: LocalHints, stop: CancellationToken) {
    #[cfg(feature = "fault-injection")]
    if mutation::is(Mutation::Sweep) {
        return;
    }
    loop {
        let hear = async {
            let mut notifications = store.listen().await?;
            while !stop.is_cancelled() {
                if let Some(agentable) = notifications.recv().await? {
                    let _ = local.try_send(Hint::run(agentable));
                }
            }
            Ok(())
        };
        let failed: houston_store::Result<()> = tokio::select! {
            () = stop.cancelled() => return,
            failed = hear => failed,
        };
        if let Err(error) = failed {
            tracing::debug!(%error, "not listening to postgres, the sweep goes on");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}
