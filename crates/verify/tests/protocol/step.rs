//! The steps of a run, and how they are committed.

use crate::database::{Awaited, Database, Holder, Lock, Outcome, Status, messages};
use crate::history::{Entry, Set};
use crate::rules::Rules;

/// How a run ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Cancelled,
    /// The model failed permanently, or workers died with the run too often.
    Failed,
}

/// A step as the engine builds it, with its transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Reads messages that arrived between two attempts: `go_on`.
    Read,
    /// A turn with tool calls, with its intents: `go_on`.
    Calls(Set),
    /// One response of several: `go_on`.
    Response(u8),
    /// The results of the turn, with the last response if it is new; reads messages: `go_on`.
    Results { last: Option<u8>, calls: Set },
    /// A turn together with its results: without intents.
    Whole(Set),
    /// The answer: `finish`.
    Answer,
    /// Results for open calls and the end of the run: `end`.
    End { ending: Ending, open: Set },
    /// The next attempt is due later: `retry`.
    Retry,
    /// Another worker goes on: `hand_over`.
    HandOver,
    /// Asks a question: `go_on`.
    Ask,
    /// Waits for the answer, or until a time if nothing was asked: `wait`.
    Wait,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitOutcome {
    pub(crate) went_on: bool,
    pub(crate) opened: bool,
    pub(crate) cancelled: bool,
    pub(crate) read: bool,
    /// Whether the lock was released.
    pub(crate) released: bool,
}

impl Step {
    fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Results { .. } | Self::Whole(_) | Self::Wait)
    }

    fn ends(self) -> bool {
        matches!(self, Self::Answer | Self::End { .. })
    }

    fn status(self) -> Option<Status> {
        match self {
            Self::Answer => Some(Status::Completed),
            Self::End { ending: Ending::Cancelled, .. } => Some(Status::Cancelled),
            Self::End { ending: Ending::Failed, .. } => Some(Status::Failed),
            Self::Retry => Some(Status::Retrying),
            Self::HandOver => Some(Status::Queued),
            Self::Wait => Some(Status::Waiting),
            _ => None,
        }
    }

    fn entries(self, run: u8) -> Vec<Entry> {
        match self {
            Self::Calls(calls) => vec![Entry::Calls { run, calls }],
            Self::Results { calls, .. } => vec![Entry::Results { calls }],
            Self::Whole(calls) => vec![Entry::Calls { run, calls }, Entry::Results { calls }],
            Self::Answer => vec![Entry::Answer { run }],
            Self::End { open, .. } if open != 0 => vec![Entry::Results { calls: open }],
            _ => Vec::new(),
        }
    }
}

impl Lock {
    /// Whether the next attempt is not due yet, and how many have failed.
    fn count_failure(&mut self, step: Step, released: bool) {
        self.waiting = step == Step::Retry;
        match step {
            Step::Retry => self.failed_attempts += 1,
            Step::HandOver => {}
            _ if released => self.failed_attempts = 0,
            _ => {}
        }
    }
}

impl Database {
    /// The commit of a step, after the fence has been checked.
    pub(crate) fn commit(&mut self, rules: &Rules, step: Step, write: Option<(u8, u8)>) -> CommitOutcome {
        let cancel = self.run().cancel;
        // A cancelled run settles all messages posted before the cancel.
        let taken = match step {
            Step::End { ending: Ending::Cancelled, .. } => cancel.unwrap_or(0),
            _ => 0,
        };
        let read = self.lock.read;
        let from = read.max(taken);
        let looks = self.lock.wake && (step.reads() || step.ends()) && (rules.reread || step != Step::Answer);
        // Messages posted after the cancel are for the next run.
        let bound = cancel.filter(|_| rules.cancel_bounds);
        let ending = matches!(step, Step::End { .. });
        let posted = self.messages.len();
        let until = bound.filter(|_| !ending).map_or(posted, usize::from);
        let mut unread = messages(usize::from(from), until).filter(|_| looks);
        let went_on = match step {
            Step::Answer => unread.is_some(),
            Step::Wait => self.wait_goes_on(rules),
            _ => false,
        };
        if step == Step::Answer && !went_on && looks {
            unread = messages(usize::from(from), posted);
        }
        let released = step.status().is_some() && !went_on;
        let over = released && step.ends();

        self.settle(step, from);
        self.history.extend(step.entries(self.lock.run));
        if let (Some(messages), false) = (unread, released) {
            self.history.push(Entry::User { messages });
        }
        self.note_calls(step);
        let asked_nothing = self.note_question(step, over);
        if released {
            let run = self.run();
            run.status = step.status().unwrap_or(run.status);
            run.ends = (run.ends + u8::from(over)).min(2);
        }
        let opened = over && unread.is_some();
        let lock = &mut self.lock;
        // Reading messages and handing over do not count as progress.
        if !matches!(step, Step::Read | Step::HandOver) {
            lock.died_with.clear();
        }
        lock.last_write = write;
        lock.read = if unread.is_some() && !released { u8::try_from(until).unwrap() } else { from };
        lock.wake = match step {
            _ if !released => lock.wake && (bound.is_some() || (unread.is_none() && !step.reads())),
            Step::Retry | Step::HandOver => true,
            _ => opened,
        };
        if released && (rules.wait_releases || step != Step::Wait) {
            lock.holder = Holder::None;
        }
        lock.until = released && step == Step::Wait && asked_nothing;
        lock.count_failure(step, released);
        lock.open = !over;
        if opened {
            self.open_run();
        }
        let read = unread.is_some() && !released;
        CommitOutcome { went_on, opened, cancelled: cancel.is_some(), read, released }
    }

    /// Whether something has arrived that keeps a run going which would wait.
    fn wait_goes_on(&self, rules: &Rules) -> bool {
        let is_answered = self.runs[usize::from(self.lock.run)].awaited == Awaited::Arrived;
        (rules.wait_rereads && self.lock.wake) || (rules.wait_looks_at_answer && is_answered)
    }

    /// Returns whether the run waits until a time, if it waits.
    fn note_question(&mut self, step: Step, over: bool) -> bool {
        let run = self.run();
        let asked_nothing = run.awaited == Awaited::Nothing;
        match step {
            Step::Ask => run.awaited = Awaited::Answer,
            // What the driver remembers: it waits once.
            Step::Wait if asked_nothing => run.awaited = Awaited::Arrived,
            _ if over && !asked_nothing => run.awaited = Awaited::Arrived,
            _ => {}
        }
        asked_nothing
    }

    /// Sets the outcome of the messages that were read before this step.
    fn settle(&mut self, step: Step, read: u8) {
        let run = self.lock.run;
        let outcome = match step {
            Step::Answer => Outcome::Answered,
            Step::End { ending: Ending::Cancelled, .. } => Outcome::Cancelled { run },
            Step::End { ending: Ending::Failed, .. } => Outcome::Failed,
            _ => return,
        };
        for message in &mut self.messages[..usize::from(read)] {
            if *message == Outcome::Pending {
                *message = outcome;
            }
        }
    }

    fn note_calls(&mut self, step: Step) {
        let run = self.run();
        match step {
            Step::Calls(calls) => run.intents |= calls,
            Step::Response(nth) | Step::Results { last: Some(nth), .. } => run.responses |= 1 << nth,
            _ => {}
        }
    }
}
