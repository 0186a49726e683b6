//! Hearing from Postgres itself: of messages that other programs post, and of runs that are cancelled. It needs no
//! Redis, and is lossy all the same: the sweep and the reaper find what was not heard.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{AgentableId, RunId};
use houston_engine::Engine;
use houston_faults::mutation::{self, Mutation};
use houston_queue::{Hint, Lane, LocalHints, RedisHealth};
use houston_store::Store;
use houston_store::listen::Notification;
use tokio_util::sync::CancellationToken;

/// How long to wait before listening again after the connection broke.
const AGAIN: Duration = Duration::from_secs(1);

/// What a notification leads to.
pub(crate) struct Listener {
    pub(crate) store: Store,
    pub(crate) engine: Arc<Engine>,
    pub(crate) local: LocalHints,
    pub(crate) redis: RedisHealth,
    pub(crate) stop: CancellationToken,
}

impl Listener {
    /// Listens until stopped.
    pub(crate) async fn run(self) {
        if mutation::is(Mutation::Sweep) {
            return;
        }
        loop {
            let failed: houston_store::Result<()> = tokio::select! {
                () = self.stop.cancelled() => return,
                failed = self.hear() => failed,
            };
            if let Err(error) = failed {
                tracing::debug!(%error, "not listening to postgres, the sweep goes on");
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    async fn hear(&self) -> houston_store::Result<()> {
        let mut notifications = self.store.listen().await?;
        loop {
            match notifications.recv().await? {
                // A person posted it and waits.
                Some(Notification::Posted(agentable)) => self.ring(agentable),
                Some(Notification::Cancelled { agentable, run }) => self.cancel(agentable, run),
                None => {}
            }
        }
    }

    fn cancel(&self, agentable: AgentableId, run: RunId) {
        // If no worker drives the run, one has to end it; with Redis up, a hint has reached one worker,
        // not to all.
        if !self.engine.live().cancel(agentable, run) && !self.redis.is_up() {
            self.ring(agentable);
        }
    }

    /// Refused when too many hints wait or the worker is stopping: the sweep finds the agentable.
    fn ring(&self, agentable: AgentableId) {
        let _ = self.local.try_send(Lane::Interactive, Hint::run(agentable));
    }
}
