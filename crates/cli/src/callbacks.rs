//! [`Callbacks`]: what a program wants to change or to observe in the runs of its workers.

use std::sync::Arc;

use houston_engine::{Observer, RunHook};

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
