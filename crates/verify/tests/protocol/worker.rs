//! A worker process and the run it drives.

use crate::database::{Awaited, Claimed, Database, Lease};
use crate::history::{Set, first, has_called, open_calls};
use crate::observation::Observation;
use crate::rules::Intent;
use crate::scenario::{Class, Scenario, Waits};
use crate::step::{CommitOutcome, Ending, Step};

/// What a worker knows about the run it drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunDriver {
    pub(crate) epoch: u8,
    pub(crate) run: u8,
    /// Number of its next write.
    pub(crate) write: u8,
    /// Whether it has noticed a cancel.
    pub(crate) cancelled: bool,
    /// Whether messages that arrived between two attempts are still unread.
    pub(crate) unread: bool,
    /// Whether too many workers have died with the run.
    pub(crate) given_up: bool,
    /// Whether, as far as it knows, the run has had its turn with tools.
    pub(crate) called: bool,
    /// Calls without results, as far as it knows.
    pub(crate) open: Set,
    /// What the run waits for, as far as it knows.
    pub(crate) awaited: Awaited,
}

/// The open calls of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Calls {
    /// Calls to execute.
    pub(crate) todo: Set,
    /// Calls whose response is to be committed.
    pub(crate) back: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkerState {
    /// The process is dead.
    Down,
    Idle,
    /// A claim without a response, or a run that broke down: the lock is to be released.
    Abandoning {
        epoch: u8,
        broke_down: bool,
    },
    /// Claimed; the history is not loaded yet.
    Loading(RunDriver),
    Driving(RunDriver),
    /// The intents are committed; calls are executed in parallel.
    Executing(RunDriver, Calls),
    /// A commit without a response: it will be sent again.
    Unconfirmed(RunDriver, Step),
    /// With check-then-write: the check has passed.
    Checked(RunDriver, Step),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) lease: Lease,
    pub(crate) state: WorkerState,
}

impl WorkerState {
    /// The driver, if a run is being driven.
    pub(crate) fn driver(&self) -> Option<RunDriver> {
        match *self {
            Self::Loading(driver)
            | Self::Driving(driver)
            | Self::Executing(driver, _)
            | Self::Unconfirmed(driver, _)
            | Self::Checked(driver, _) => Some(driver),
            Self::Down | Self::Idle | Self::Abandoning { .. } => None,
        }
    }

    pub(crate) fn notice_cancel(&mut self) {
        match self {
            Self::Loading(driver)
            | Self::Driving(driver)
            | Self::Executing(driver, _)
            | Self::Unconfirmed(driver, _)
            | Self::Checked(driver, _) => driver.cancelled = true,
            Self::Down | Self::Idle | Self::Abandoning { .. } => {}
        }
    }
}

impl RunDriver {
    pub(crate) fn begin(claimed: Claimed, scenario: &Scenario) -> Self {
        Self {
            epoch: claimed.epoch,
            run: claimed.run,
            write: 0,
            cancelled: claimed.cancelled,
            unread: claimed.again,
            given_up: claimed.deaths >= scenario.max_crashes,
            called: false,
            open: 0,
            awaited: Awaited::Nothing,
        }
    }

    /// Loads the history and the question: the progress of the run.
    pub(crate) fn load(mut self, database: &Database) -> Self {
        self.called = has_called(&database.history, self.run);
        self.open = open_calls(&database.history);
        self.awaited = database.runs[usize::from(self.run)].awaited;
        self
    }

    /// Continues as `drive.rs` does once the history is loaded.
    pub(crate) fn go(
        mut self,
        database: &Database,
        outside: &[Set],
        scenario: &Scenario,
    ) -> (WorkerState, Vec<Observation>) {
        if self.open == 0 || self.given_up || self.cancelled {
            return (WorkerState::Driving(self), Vec::new());
        }
        // The code reads late messages only if no calls are open; here calls are open.
        self.unread = false;
        let answered = database.runs[usize::from(self.run)].responses & self.open;
        let mut calls = Calls { todo: 0, back: 0 };
        let mut observed = Vec::new();
        if answered != 0 {
            observed.push(Observation::CommittedResponseKept);
        }
        for (nth, class) in scenario.tools.iter().enumerate() {
            let bit = 1 << nth;
            if self.open & !answered & bit == 0 {
                continue;
            }
            let happened = outside.get(usize::from(self.run)).is_some_and(|executed| executed & bit != 0);
            match class {
                Class::Effect if scenario.rules.intent != Intent::RunAgain => {
                    calls.back |= bit;
                    observed.push(Observation::OutcomeUnknown);
                }
                Class::Checkable if happened => {
                    calls.back |= bit;
                    observed.push(Observation::EffectLookedUp);
                }
                Class::Effect | Class::Checkable | Class::Idempotent => calls.todo |= bit,
            }
        }
        (WorkerState::Executing(self, calls), observed)
    }

    /// The steps it may commit next while no call is open. The first one is that without a fault.
    pub(crate) fn steps(&self, scenario: &Scenario) -> Vec<Step> {
        if self.given_up {
            return vec![Step::End { ending: Ending::Failed, open: self.open }];
        }
        if self.unread && self.open == 0 {
            return vec![Step::Read];
        }
        if self.cancelled {
            return vec![Step::End { ending: Ending::Cancelled, open: self.open }];
        }
        if scenario.waits == Waits::ForAnswer && self.awaited == Awaited::Nothing {
            return vec![Step::Ask];
        }
        if !self.called && !scenario.tools.is_empty() {
            return vec![Step::Calls(first(scenario.tools.len()))];
        }
        match (scenario.waits, self.awaited) {
            // It may also end while its question is open.
            (Waits::ForAnswer, Awaited::Answer) => vec![Step::Wait, Step::Answer],
            (Waits::UntilTime, Awaited::Nothing) => vec![Step::Wait],
            _ => vec![Step::Answer],
        }
    }

    /// The worker's state after `step` was committed.
    pub(crate) fn after(mut self, step: Step, outcome: CommitOutcome, calls: Calls) -> WorkerState {
        if outcome.released {
            return WorkerState::Idle;
        }
        self.write += 1;
        self.unread = false;
        self.cancelled |= outcome.cancelled;
        match step {
            Step::Ask => WorkerState::Driving(Self { awaited: Awaited::Answer, ..self }),
            // Something has arrived: the driver looks at it.
            Step::Wait => WorkerState::Loading(self),
            Step::Calls(open) => {
                self.called = true;
                self.open = open;
                if self.cancelled {
                    // The code checks for a cancel before it executes tools.
                    WorkerState::Driving(self)
                } else {
                    WorkerState::Executing(self, Calls { todo: open, back: 0 })
                }
            }
            Step::Response(nth) => {
                WorkerState::Executing(self, Calls { back: calls.back & !(1 << nth), ..calls })
            }
            Step::Results { .. } | Step::Whole(_) => {
                self.called = true;
                self.open = 0;
                WorkerState::Driving(self)
            }
            _ => WorkerState::Driving(self),
        }
    }

    /// The steps it may commit while calls are open.
    pub(crate) fn steps_with(&self, calls: Calls, scenario: &Scenario) -> Vec<Step> {
        let committed = scenario.rules.intent != Intent::Absent;
        if self.cancelled {
            let open = if committed { self.open } else { 0 };
            return vec![Step::End { ending: Ending::Cancelled, open }];
        }
        let left = calls.todo | calls.back;
        if !committed {
            return if calls.todo == 0 { vec![Step::Whole(calls.back)] } else { Vec::new() };
        }
        if left == 0 {
            return vec![Step::Results { last: None, calls: self.open }];
        }
        (0..scenario.tools.len())
            .filter(|nth| calls.back & (1 << nth) != 0)
            .map(|nth| {
                let call = u8::try_from(nth).unwrap();
                if left == 1 << nth {
                    Step::Results { last: Some(call), calls: self.open }
                } else {
                    Step::Response(call)
                }
            })
            .collect()
    }
}
