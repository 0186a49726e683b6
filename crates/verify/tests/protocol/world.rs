//! The state of the model: database, queue, workers, executed effects, and remaining faults.

use crate::database::{Database, Lease};
use crate::history::Set;
use crate::scenario::{Budget, Scenario};
use crate::worker::{Worker, WorkerState};

/// Maximum number of queued hints; more make no difference.
pub(crate) const MAX_HINTS: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) hints: u8,
    pub(crate) flushed: bool,
    pub(crate) workers: Vec<Worker>,
    /// Executed calls, by run.
    pub(crate) executed: Vec<Set>,
    /// Calls executed more than once, by run.
    pub(crate) repeated: Vec<Set>,
    /// Whether a write of a worker without the lock was accepted.
    pub(crate) stale_write: bool,
    /// Whether a lock was claimed although its holder's lease was valid.
    pub(crate) second_holder: bool,
    pub(crate) left: Budget,
}

impl World {
    pub(crate) fn begin(scenario: &Scenario) -> Self {
        let worker = Worker { lease: Lease::Alive, state: WorkerState::Idle };
        Self {
            database: Database::empty(),
            hints: 0,
            flushed: false,
            workers: vec![worker; scenario.workers],
            executed: Vec::new(),
            repeated: Vec::new(),
            stale_write: false,
            second_holder: false,
            left: scenario.budget,
        }
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.workers.iter().map(|worker| worker.lease).collect()
    }

    pub(crate) fn add_hint(&mut self) {
        self.hints = (self.hints + 1).min(MAX_HINTS);
    }

    /// Executes a call.
    pub(crate) fn execute(&mut self, run: u8, nth: usize) {
        let run = usize::from(run);
        self.executed.resize(self.executed.len().max(run + 1), 0);
        self.repeated.resize(self.executed.len(), 0);
        self.repeated[run] |= self.executed[run] & 1 << nth;
        self.executed[run] |= 1 << nth;
    }
}
