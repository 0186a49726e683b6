//! What is attached to a process. [`Instruments`]: what it counts, and the spans that it makes. [`Callbacks`]: what a program
//! wants to change or to observe in the runs of its workers.

use std::sync::Arc;

use houston_engine::{Observer, RunHook};
use houston_metrics::Metrics;
use houston_spans::Spans;

/// The metrics and spans of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Instruments {
    pub(crate) metrics: Arc<Metrics>,
    /// None, unless they are exported.
    pub(crate) spans: Spans,
}

/// The hooks and observers of a program.
#[derive(Clone, Default)]
pub(crate) struct Callbacks {
    pub(crate) hooks: Vec<Arc<dyn RunHook>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callbacks")
            .field("hooks", &self.hooks.len())
            .field("observers", &self.observers.len())
            .finish()
    }
}
