//! Hearing from Postgres itself: of messages that other programs post, and of runs that are cancelled. It needs no
//! Redis, and is lossy all the same: the sweep and the reaper find what was not heard.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{AgentableId, RunId};
use houston_engine::Engine;
use houston_queue::{Hint, Lane, LocalHints, RedisHealth};
use houston_store::Store;
use houston_store::listen::Notification;
#[cfg(feature = "fault-injection")]
use houston_store::mutation::{self, Mutation};
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
        #[cfg(feature = "fault-injection")]
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
                // What is posted is said by somebody, who waits.
                Some(Notification::Posted(agentable)) => self.ring(agentable),
                Some(Notification::Cancelled { agentable, run }) => self.cancel(agentable, run),
                None => {}
            }
        }
    }

    fn cancel(&self, agentable: AgentableId, run: RunId) {
        // Nobody may be driving it, and somebody has to end it; with Redis up, a hint has said so to one worker,
        // not to all.
        if !self.engine.live().cancel(agentable, run) && !self.redis.is_up() {
            self.ring(agentable);
        }
    }

    /// Refused when too many wait or nobody listens any more: the sweep finds it.
    fn ring(&self, agentable: AgentableId) {
        let _ = self.local.try_send(Lane::Interactive, Hint::run(agentable));
    }
}
