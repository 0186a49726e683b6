//! What a step changes in the rows of its run.

use chrono::{DateTime, Utc};

use super::{Ending, RunTransition, Step};
use crate::event::Event;
use crate::run::RunStatus;

/// What an undisturbed step changes: nothing has arrived since the step before it, neither an unread message nor a
/// request to cancel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Undisturbed<'s> {
    /// The event after the step's own, if the transition has one.
    pub last: Option<&'s Event>,
    /// What happens to the run and its lock.
    pub outcome: Outcome<'s>,
    /// Whether the step shows that the run gets on, which resets the count of claims without a committed step.
    pub is_progress: bool,
    /// Whether the workers that died while they drove the run are no longer held against it.
    pub forgives_deaths: bool,
}

/// What happens to the run and its lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome<'s> {
    /// The run keeps its lock.
    Continued,
    /// The run has ended, and its lock is released.
    Ended(&'s Ending),
    /// The lock is released until the next attempt is due.
    Postponed {
        /// Why this attempt failed.
        ending: &'s Ending,
        /// When the next attempt is due.
        until: DateTime<Utc>,
        /// Whether this attempt counts towards the limit of failed attempts.
        counts: bool,
    },
    /// The lock is released for another worker.
    HandedOver,
}

impl<'s> Undisturbed<'s> {
    /// The changes of `step`; `None` if a cancelled run ends with it, since such a run takes messages along that only
    /// the database knows.
    #[must_use]
    pub fn of(step: &'s Step) -> Option<Self> {
        let (last, outcome) = match &step.transition {
            RunTransition::Continue { event, .. } => (event.as_ref(), Outcome::Continued),
            RunTransition::Complete { ending, .. } | RunTransition::Terminate { ending, .. }
                if ending.status == RunStatus::Cancelled =>
            {
                return None;
            }
            RunTransition::Complete { event, ending, .. } | RunTransition::Terminate { event, ending } => {
                (Some(event), Outcome::Ended(ending))
            }
            RunTransition::Retry { event, at, counts, ending } => {
                (Some(event), Outcome::Postponed { ending, until: *at, counts: *counts })
            }
            RunTransition::Release { event } => (Some(event), Outcome::HandedOver),
        };
        let only_polls = outcome == Outcome::Continued
            && last.is_none()
            && step.entries.is_empty()
            && step.events.is_empty()
            && step.responses.is_empty();
        let gives_way = matches!(outcome, Outcome::HandedOver | Outcome::Postponed { counts: false, .. });
        Some(Self { last, outcome, is_progress: !only_polls, forgives_deaths: !only_polls && !gives_way })
    }

    /// Whether the step releases the lock.
    #[must_use]
    pub fn releases(&self) -> bool {
        self.outcome != Outcome::Continued
    }

    /// Whether the run ends.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self.outcome, Outcome::Ended(_))
    }

    /// Whether the agentable has a reason to run after the step.
    #[must_use]
    pub fn wakes(&self) -> bool {
        matches!(self.outcome, Outcome::Postponed { .. } | Outcome::HandedOver)
    }

    /// Whether the slot that the run frees is for another run of the user: not after a hand-over, which takes it again.
    #[must_use]
    pub fn frees_a_slot(&self) -> bool {
        matches!(self.outcome, Outcome::Ended(_) | Outcome::Postponed { counts: true, .. })
    }

    /// When the next attempt is due, if the run waits for one.
    #[must_use]
    pub fn until(&self) -> Option<DateTime<Utc>> {
        match self.outcome {
            Outcome::Postponed { until, .. } => Some(until),
            _ => None,
        }
    }

    /// What is added to the number of failed attempts; `None` if it becomes 0.
    #[must_use]
    pub fn failures(&self) -> Option<i32> {
        match self.outcome {
            Outcome::Postponed { counts: true, .. } => Some(1),
            Outcome::Ended(_) => None,
            _ => Some(0),
        }
    }

    /// The status that the run gets; `None` if it keeps its status.
    #[must_use]
    pub fn status(&self) -> Option<RunStatus> {
        match self.outcome {
            Outcome::Continued => None,
            Outcome::Ended(ending) | Outcome::Postponed { ending, .. } => Some(ending.status),
            Outcome::HandedOver => Some(RunStatus::Queued),
        }
    }

    /// Error code and text of the run after a step that releases its lock.
    #[must_use]
    pub fn error(&self) -> (Option<&'s str>, Option<&'s str>) {
        match self.outcome {
            Outcome::Ended(ending) | Outcome::Postponed { ending, .. } => {
                (ending.error_code.as_deref(), ending.error_message.as_deref())
            }
            Outcome::Continued | Outcome::HandedOver => (None, None),
        }
    }
}
