//! Who drives: the worker's lease as the engine sees it.

use std::sync::Arc;

use houston_domain::id::WorkerId;
use houston_queue::{Hint, Lane};
use tokio_util::sync::CancellationToken;

/// The worker process on whose behalf runs are driven. One incarnation: a worker whose row was reaped makes a
/// new one.
#[derive(Clone)]
pub struct Holder {
    /// Its row.
    pub worker: WorkerId,
    /// Cancelled when the lease is lost: drop every run, write nothing.
    pub lost: CancellationToken,
    /// Cancelled when the process is told to stop: finish what cannot be repeated, hand over the rest.
    pub drain: CancellationToken,
    /// Whether the last renewal is recent enough, by this machine's boot-time clock, to start a tool.
    pub trusted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Rings for an agentable that may run now that another of its user has let go. Never waits.
    pub ring: Arc<dyn Fn(Lane, Hint) + Send + Sync>,
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder").field("worker", &self.worker).finish_non_exhaustive()
    }
}
