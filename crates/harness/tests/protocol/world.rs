//! Everything there is at one moment: the database, the queue, the workers, the outside, and the faults to come.

use crate::database::{Database, Lease};
use crate::history::Set;
use crate::scenario::{Budget, Scenario};
use crate::worker::{Duty, Worker};

/// Hints that can wait at most; more would be the same.
pub(crate) const MOST_HINTS: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) hints: u8,
    pub(crate) flushed: bool,
    pub(crate) workers: Vec<Worker>,
    /// Calls that were executed outside, by run.
    pub(crate) executed: Vec<Set>,
    /// Those that were executed more than once.
    pub(crate) repeated: Vec<Set>,
    /// A write was accepted of a worker that did not hold the lock.
    pub(crate) stale_write: bool,
    pub(crate) left: Budget,
}

impl World {
    pub(crate) fn begin(scenario: &Scenario) -> Self {
        let worker = Worker { lease: Lease::Alive, duty: Duty::Idle };
        Self {
            database: Database::empty(),
            hints: 0,
            flushed: false,
            workers: vec![worker; scenario.workers],
            executed: Vec::new(),
            repeated: Vec::new(),
            stale_write: false,
            left: scenario.budget,
        }
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.workers.iter().map(|worker| worker.lease).collect()
    }

    pub(crate) fn ring(&mut self) {
        self.hints = (self.hints + 1).min(MOST_HINTS);
    }

    /// The outside executes a call.
    pub(crate) fn execute(&mut self, run: u8, nth: usize) {
        let run = usize::from(run);
        self.executed.resize(self.executed.len().max(run + 1), 0);
        self.repeated.resize(self.executed.len(), 0);
        self.repeated[run] |= self.executed[run] & 1 << nth;
        self.executed[run] |= 1 << nth;
    }
}
