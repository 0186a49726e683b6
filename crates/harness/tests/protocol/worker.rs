//! A worker process and the one run it may drive.

use crate::database::{Claimed, Database, Lease};
use crate::history::{Set, first, has_called, open_calls};
use crate::rules::Intent;
use crate::scenario::{Class, Scenario};
use crate::step::{Done, Ending, Step};
use crate::witness::Witness;

/// What a drive knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Drive {
    pub(crate) epoch: u8,
    pub(crate) run: u8,
    /// Numbers its writes.
    pub(crate) write: u8,
    /// It has heard that somebody cancelled the run.
    pub(crate) cancelled: bool,
    /// Messages that came between two attempts are still to be read.
    pub(crate) unread: bool,
    /// It took its workers down too often.
    pub(crate) given_up: bool,
    /// The run has had its turn of tools, as far as it knows.
    pub(crate) called: bool,
    /// Calls that wait for results, as far as it knows.
    pub(crate) open: Set,
}

/// The open calls of a turn in the hands of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Calls {
    /// To be executed outside.
    pub(crate) todo: Set,
    /// Back; the response is to be committed.
    pub(crate) back: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Duty {
    /// The process is dead.
    Down,
    Idle,
    /// A claim was granted, or a run broke down here, and the lock is to be let go.
    Abandoning {
        epoch: u8,
        broke_down: bool,
    },
    /// Claimed; the history is yet to be read.
    Loading(Drive),
    Driving(Drive),
    /// The intents are in; calls act outside side by side.
    Executing(Drive, Calls),
    /// A commit may have landed: it will be sent again.
    Unsure(Drive, Step),
    /// Check-then-write: the check has passed.
    Checked(Drive, Step),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) lease: Lease,
    pub(crate) duty: Duty,
}

impl Duty {
    /// The drive, while there is one.
    pub(crate) fn drive(&self) -> Option<Drive> {
        match *self {
            Self::Loading(drive)
            | Self::Driving(drive)
            | Self::Executing(drive, _)
            | Self::Unsure(drive, _)
            | Self::Checked(drive, _) => Some(drive),
            Self::Down | Self::Idle | Self::Abandoning { .. } => None,
        }
    }

    pub(crate) fn hear(&mut self) {
        match self {
            Self::Loading(drive)
            | Self::Driving(drive)
            | Self::Executing(drive, _)
            | Self::Unsure(drive, _)
            | Self::Checked(drive, _) => drive.cancelled = true,
            Self::Down | Self::Idle | Self::Abandoning { .. } => {}
        }
    }
}

impl Drive {
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
        }
    }

    /// Reads the history: where the run stands.
    pub(crate) fn load(mut self, database: &Database) -> Self {
        self.called = has_called(&database.history, self.run);
        self.open = open_calls(&database.history);
        self
    }

    /// Goes on as `drive.rs` does once the history is read, or a step is in.
    pub(crate) fn go(
        mut self,
        database: &Database,
        outside: &[Set],
        scenario: &Scenario,
    ) -> (Duty, Vec<Witness>) {
        if self.open == 0 || self.given_up || self.cancelled {
            return (Duty::Driving(self), Vec::new());
        }
        // `go` reads late messages only when no tools are open; here they are.
        self.unread = false;
        let known = database.runs[usize::from(self.run)].responses & self.open;
        let mut calls = Calls { todo: 0, back: 0 };
        let mut seen = Vec::new();
        if known != 0 {
            seen.push(Witness::KnownResponseKept);
        }
        for (nth, class) in scenario.tools.iter().enumerate() {
            let bit = 1 << nth;
            if self.open & !known & bit == 0 {
                continue;
            }
            let happened = outside.get(usize::from(self.run)).is_some_and(|executed| executed & bit != 0);
            match class {
                Class::Effect if scenario.rules.intent != Intent::RunAgain => {
                    calls.back |= bit;
                    seen.push(Witness::OutcomeUnknown);
                }
                Class::Checkable if happened => {
                    calls.back |= bit;
                    seen.push(Witness::OutsideAsked);
                }
                Class::Effect | Class::Checkable | Class::Idempotent => calls.todo |= bit,
            }
        }
        (Duty::Executing(self, calls), seen)
    }

    /// The steps it may commit next while no tool is open. The first is what happens without a fault.
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
        if self.called || scenario.tools.is_empty() {
            vec![Step::Answer]
        } else {
            vec![Step::Calls(first(scenario.tools.len()))]
        }
    }

    /// What it does after `step` was committed.
    pub(crate) fn after(mut self, step: Step, done: Done, calls: Calls) -> Duty {
        if done.released {
            return Duty::Idle;
        }
        self.write += 1;
        self.unread = false;
        self.cancelled |= done.cancelled;
        match step {
            Step::Calls(open) => {
                self.called = true;
                self.open = open;
                if self.cancelled {
                    // `execute` looks for a cancel before anything else.
                    Duty::Driving(self)
                } else {
                    Duty::Executing(self, Calls { todo: open, back: 0 })
                }
            }
            Step::Response(nth) => Duty::Executing(self, Calls { back: calls.back & !(1 << nth), ..calls }),
            Step::Results { .. } | Step::Whole(_) => {
                self.called = true;
                self.open = 0;
                Duty::Driving(self)
            }
            _ => Duty::Driving(self),
        }
    }

    /// What it may commit while tools are open.
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
