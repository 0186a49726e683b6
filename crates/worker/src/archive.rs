//! The session archive: closes sessions after a pause, and writes the summaries of closed sessions. The worker that claims
//! the tick closes sessions; all workers write summaries. After an interruption the next tick continues.

use std::sync::Arc;
use std::time::Duration;

use houston_engine::Engine;
use houston_store::RunStore;
use houston_store::health::Tick;
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The job's name in Postgres.
const SESSION_ARCHIVE: &str = "session_archive";

/// Starts both jobs, unless no kind has `archives = true`.
pub(crate) fn start(store: &RunStore, engine: &Arc<Engine>, tracker: &TaskTracker, stop: &CancellationToken) {
    if store.archiving().kinds.is_empty() {
        return;
    }
    let archive = Archive { store: store.clone(), engine: Arc::clone(engine), stop: stop.clone() };
    tracker.spawn(archive.clone().close());
    tracker.spawn(archive.summarise());
}

#[derive(Clone)]
struct Archive {
    store: RunStore,
    engine: Arc<Engine>,
    stop: CancellationToken,
}

impl Archive {
    /// Closes sessions until stopped.
    async fn close(self) {
        let every = self.every();
        loop {
            match self.store.claim_tick(SESSION_ARCHIVE, every, Tick::Latest).await {
                Ok(true) => match self.engine.sessions().close_quiet().await {
                    Ok(0) => {}
                    Ok(closed) => tracing::debug!(closed, "closed sessions"),
                    Err(error) => {
                        tracing::warn!(%error, "could not close sessions; trying again")
                    }
                },
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "could not claim a tick of the session archive"),
            }
            if self.pause(every).await {
                return;
            }
        }
    }

    /// Writes summaries until stopped, without a pause while more are waiting.
    async fn summarise(self) {
        let at_once =
            usize::try_from(self.store.archiving().settings.summaries_at_once).unwrap_or(usize::MAX);
        loop {
            match self.engine.sessions().write_summaries(&self.stop).await {
                Ok(taken) if taken >= at_once && !self.stop.is_cancelled() => continue,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "could not summarise closed sessions; trying again"),
            }
            if self.pause(self.every()).await {
                return;
            }
        }
    }

    fn every(&self) -> Duration {
        Duration::from_millis(self.store.archiving().settings.every_ms)
    }

    /// Waits for `every` or up to a fifth less, so that workers do not search at the same time. Returns whether it was stopped.
    async fn pause(&self, every: Duration) -> bool {
        let pause = every.mul_f64(1.0 - rand::rng().random_range(0.0..=0.2));
        tokio::select! {
            () = self.stop.cancelled() => true,
            () = tokio::time::sleep(pause) => false,
        }
    }
}
