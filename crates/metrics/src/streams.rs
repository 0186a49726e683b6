//! [`Streams`]: event streams of clients.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::labels::{counters, metric};

/// Why a stream was aborted before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The process is stopping.
    Draining,
    /// Its key was revoked or has expired.
    Revoked,
    /// What it is about was erased.
    Erased,
    /// Its user was moved to another cell.
    Moved,
    /// Its client reads too slowly.
    TooSlow,
    /// An event cannot be read.
    Unreadable,
    /// Events were deleted by age before its client got them.
    Expired,
}

/// The values of the label `reason`, in the order of [`Dropped`].
const REASONS: [&str; 7] = ["draining", "revoked", "erased", "moved", "too_slow", "unreadable", "expired"];

/// Event streams of clients.
pub struct Streams {
    /// Those that are open.
    pub connections: Gauge,
    /// Streams that began at a position of their client.
    pub resumes: Counter,
    dropped: [Counter; REASONS.len()],
}

impl Streams {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let open = "Open event streams, with requests that wait for the end of a run";
        let resumes = "Event streams that began where their client was before";
        let resumes = metric(registry, ("sse_resumes", resumes));
        let dropped = "Event streams that were aborted before their end, so that clients reconnect";
        Self {
            connections: metric(registry, ("sse_connections", open)),
            resumes,
            dropped: counters(registry, ("sse_dropped", dropped), "reason", REASONS),
        }
    }

    /// A stream was aborted.
    pub fn dropped(&self, why: Dropped) {
        self.dropped[why as usize].inc();
    }
}
