//! [`Instruments`]: what a process counts, and the spans that it makes.

use std::sync::Arc;

use houston_metrics::Metrics;
use houston_spans::Spans;

/// The metrics and spans of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Instruments {
    pub(crate) metrics: Arc<Metrics>,
    /// None, unless they are exported.
    pub(crate) spans: Spans,
}
