//! [`Holder`]: the worker's lease as the engine sees it.

use std::sync::Arc;

use houston_domain::id::WorkerId;
use houston_queue::{Hint, Lane};
use tokio_util::sync::CancellationToken;

/// The worker on whose behalf runs are driven, for the lifetime of one lease: a worker whose lease was reaped creates a new
/// holder.
#[derive(Clone)]
pub struct Holder {
    /// The id of its row in `workers`.
    pub worker: WorkerId,
    /// Cancelled when the lease is lost: drop every run, write nothing.
    pub lost: CancellationToken,
    /// Cancelled when the process is asked to stop: finish what cannot be repeated, hand over the rest.
    pub drain: CancellationToken,
    /// Whether the last renewal is recent enough, by this machine's boot-time clock, to start a tool.
    pub trusted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Sends a hint for an agentable that may run now because another run of its user ended. Never blocks.
    pub send_hint: Arc<dyn Fn(Lane, Hint) + Send + Sync>,
}
