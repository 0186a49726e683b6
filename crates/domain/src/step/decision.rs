//! What a step changes in the rows of its run.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use super::{Ending, RunTransition, Step};
use crate::event::Event;
use crate::event::derived::RunEnd;
use crate::frame::MessageBlock;
use crate::id::RunId;
use crate::run::RunStatus;
use crate::unread::{MovedMessages, ReadLimits, Unread};

/// What has happened to the run since the step before: messages that arrived, and a request to cancel.
///
/// The default is that nothing has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the agentable has a reason to run besides this step: unread messages, or a request to cancel. A request
    /// stays such a reason until the run has ended.
    pub is_awake: bool,
    /// The position up to which messages are in the history.
    pub read_seq: i64,
    /// Number of unread messages.
    pub unread_count: i32,
    /// The position of the newest event when the cancellation was requested.
    pub cancel_seq: Option<i64>,
    /// Who or what requested it; `None`: the user.
    pub cancel_reason: Option<String>,
    /// The first messages after [`reads_after`](Self::reads_after): one more than the limits allow, if there are as
    /// many.
    pub unread: Vec<Unread>,
    /// Whether a question that the step waits for is closed. That may have set `is_awake` before an earlier step, which
    /// cleared it.
    pub is_answered: bool,
    /// Number of messages after [`reads_after`](Self::reads_after), if that is not [`read_seq`](Self::read_seq).
    pub unread_after: Option<i32>,
}

impl Found {
    /// Number of unread messages after those in `unread` were read.
    fn left_unread(&self) -> i32 {
        let all = self.unread_after.unwrap_or(self.unread_count);
        all - i32::try_from(self.unread.len()).unwrap_or(i32::MAX)
    }

    /// How the step ends the run as cancelled, if it does: a person or a message requested it. A run that the
    /// health monitor ends has another status.
    fn cancellation(&self, step: &Step) -> Option<Cancellation> {
        let ending = step.transition.final_ending()?;
        let by = self.cancel_reason.as_deref().unwrap_or("user");
        let is_cancelled = self.cancel_seq.is_some() || ending.status == RunStatus::Cancelled;
        (is_cancelled && matches!(by, "user" | "interrupt" | "rollback"))
            .then(|| Cancellation { by: by.to_owned(), through: self.cancel_seq.unwrap_or(0) })
    }

    /// The position after which the step looks for unread messages; `None` if it does not. A run with a request to
    /// cancel reads nothing more. Messages that were posted before the request belong to the cancelled run.
    pub fn reads_after(&self, step: &Step) -> Option<i64> {
        let looks = match &step.transition {
            RunTransition::Continue { read, .. } => *read && self.cancel_seq.is_none(),
            RunTransition::Wait { open_calls, .. } => open_calls.is_none() && self.cancel_seq.is_none(),
            RunTransition::Complete { .. } | RunTransition::Terminate { .. } => true,
            RunTransition::Retry { .. } | RunTransition::Release { .. } => false,
        };
        let through = self.cancellation(step).map_or(0, |cancellation| cancellation.through);
        (looks && self.is_awake).then(|| self.read_seq.max(through))
    }
}

/// What a step changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes<'s> {
    /// The event after the step's own, if the transition has one.
    pub last: Option<Cow<'s, Event>>,
    /// What happens to the run and its lock.
    pub outcome: Outcome<'s>,
    /// Whether the step shows that the run gets on, which resets the count of claims without a committed step.
    pub is_progress: bool,
    /// Whether the workers that died while they drove the run are no longer held against it.
    pub forgives_deaths: bool,
    /// How the run ends as cancelled, if it does.
    pub cancelled: Option<Cancellation>,
    /// The messages that enter the history as one entry after those of the step.
    pub read: Vec<MessageBlock>,
    /// The run that unread messages open, because this one ends without them.
    pub next_run: Option<RunId>,
    /// Messages that were posted for another run than the one they belong to from now on.
    pub moved: Vec<MovedMessages>,
    /// The new position up to which messages are in the history; `None` if it stays.
    pub read_seq: Option<i64>,
    /// The new number of unread messages; `None` if it stays.
    pub unread: Option<i32>,
    /// Whether the agentable has a reason to run after the step.
    pub wakes: bool,
}

/// The end of a run that was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    /// Who requested it: `user`, `interrupt` or `rollback`.
    pub by: String,
    /// Messages up to this position belong to the run.
    pub through: i64,
}

impl Cancellation {
    /// Whether the entries and messages of the run are taken back.
    pub fn rolls_back(&self) -> bool {
        self.by == "rollback"
    }
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
        /// When the next attempt is due; `None`: at once, because a cancel was requested.
        until: Option<DateTime<Utc>>,
        /// Whether this attempt counts towards the limit of failed attempts.
        counts: bool,
    },
    /// The lock is released until something happens outside of the run.
    Waiting {
        /// When the run goes on by itself; `None`: never.
        until: Option<DateTime<Utc>>,
    },
    /// The lock is released for another worker.
    HandedOver,
}

/// The changes of a step if nothing has happened since the step before; `None` if they cannot be known, because a run
/// that ends as cancelled takes messages along, and only the rows of questions say whether the answers a run waits for
/// have arrived. Nor for the steps of a driver that remembers something, and those that change a plan's document or begin
/// executors, which are few.
pub fn undisturbed(step: &Step) -> Option<Changes<'_>> {
    let is_cancelled = step.transition.final_ending().is_some_and(|end| end.status == RunStatus::Cancelled);
    let awaits_answers =
        matches!(&step.transition, RunTransition::Wait { questions, .. } if !questions.is_empty());
    let has_questions = awaits_answers || step.questions.is_some();
    let is_plain = step.plan.as_ref().is_none_or(|plan| plan.is_plain());
    (!is_cancelled && !has_questions && step.state.is_none() && is_plain)
        .then(|| decide(step, Found::default(), ReadLimits { messages: 0, bytes: 0 }))
}

/// The changes of a step.
pub fn decide(step: &Step, mut found: Found, limits: ReadLimits) -> Changes<'_> {
    let cancelled = found.cancellation(step);
    let after = found.reads_after(step);
    let count = after.map_or(0, |_| limits.count(&found.unread));
    let has_more = after.is_some() && count < found.unread.len();
    found.unread.truncate(if after.is_some() { count } else { 0 });
    let read_to = found.unread.last().map(|unread| unread.seq);

    let continues = match step.transition {
        RunTransition::Wait { open_calls: None, .. } => found.is_awake || found.is_answered,
        RunTransition::Wait { open_calls: Some(seen), .. } => {
            found.is_answered || found.cancel_seq.is_some() || found.unread_count > seen
        }
        _ => read_to.is_some() && found.cancel_seq.is_none(),
    };
    let (last, outcome) = transition(&step.transition, continues, found.cancel_seq.is_some());
    let is_ended = matches!(outcome, Outcome::Ended(_));
    let cancelled = cancelled.filter(|_| is_ended);
    let reads = outcome == Outcome::Continued;
    let next_run = match outcome {
        Outcome::Ended(_) => read_to.map(|_| step.run.successor()),
        _ => None,
    };

    let read = after.zip(read_to);
    let moved = moved_messages(step, &found, cancelled.as_ref(), read, next_run);
    let read_seq =
        if reads && read_to.is_some() { read_to } else { after_cancel(&found, cancelled.as_ref()) };
    let unread = match (after, read_to) {
        (Some(_), None) => Some(0),
        (Some(_), Some(_)) if reads => Some(if has_more { found.left_unread() } else { 0 }),
        _ => found.unread_after,
    };
    let wakes = match outcome {
        Outcome::Continued if after.is_some() => has_more,
        Outcome::Continued => found.is_awake,
        Outcome::Ended(_) => next_run.is_some(),
        Outcome::Waiting { .. } => false,
        Outcome::Postponed { .. } | Outcome::HandedOver => true,
    };
    let only_polls = reads
        && last.is_none()
        && step.entries.is_empty()
        && step.events.is_empty()
        && step.responses.is_empty()
        && step.pauses.is_empty();
    let gives_way = matches!(outcome, Outcome::HandedOver | Outcome::Postponed { counts: false, .. });
    Changes {
        last: last.map(|event| match &cancelled {
            Some(cancellation) => Cow::Owned(cancelled_event(event, &cancellation.by)),
            _ => Cow::Borrowed(event),
        }),
        outcome,
        is_progress: !only_polls,
        forgives_deaths: !only_polls && !gives_way,
        cancelled,
        read: if reads { found.unread.into_iter().map(Unread::into_block).collect() } else { Vec::new() },
        next_run,
        moved,
        read_seq,
        unread,
        wakes,
    }
}

/// The messages that change their run: those that a cancelled run takes along, and those that were read by another run
/// than the one they were posted for. `read`: after which position messages were looked for, and that of the last one that was found.
fn moved_messages(
    step: &Step,
    found: &Found,
    cancelled: Option<&Cancellation>,
    read: Option<(i64, i64)>,
    next_run: Option<RunId>,
) -> Vec<MovedMessages> {
    let mut moved = Vec::new();
    if let Some(to) = after_cancel(found, cancelled) {
        moved.push(MovedMessages { after: found.read_seq, to, run: step.run });
    }
    if let Some((after, to)) = read {
        let is_for_other_run = found.unread.iter().any(|unread| !unread.is_for_run);
        let run = next_run.or(is_for_other_run.then_some(step.run));
        moved.extend(run.map(|run| MovedMessages { after, to, run }));
    }
    moved
}

/// The last event and the outcome. `continues`: what has arrived keeps a run going that would otherwise end or wait.
fn transition(
    transition: &RunTransition,
    continues: bool,
    cancel_requested: bool,
) -> (Option<&Event>, Outcome<'_>) {
    match transition {
        RunTransition::Continue { event, .. } => (event.as_ref(), Outcome::Continued),
        RunTransition::Complete { continue_event, .. } if continues => {
            (Some(continue_event), Outcome::Continued)
        }
        RunTransition::Complete { event, ending, .. } | RunTransition::Terminate { event, ending } => {
            (Some(event), Outcome::Ended(ending))
        }
        RunTransition::Retry { event, at, counts, ending } => {
            let until = (!cancel_requested).then_some(*at);
            (Some(event), Outcome::Postponed { ending, until, counts: *counts })
        }
        RunTransition::Wait { .. } if continues => (None, Outcome::Continued),
        RunTransition::Wait { event, until, .. } => (Some(event), Outcome::Waiting { until: *until }),
        RunTransition::Release { event } => (Some(event), Outcome::HandedOver),
    }
}

/// The position up to which a cancelled run takes messages along, if that is further than what was read.
fn after_cancel(found: &Found, cancelled: Option<&Cancellation>) -> Option<i64> {
    cancelled.map(|cancellation| cancellation.through).filter(|through| *through > found.read_seq)
}

/// The end of a run, as the end of a cancelled one.
fn cancelled_event(event: &Event, by: &str) -> Event {
    let mut event = event.clone();
    if let Event::RunFinished { status, message, code, .. } = &mut event {
        (*status, *message, *code) = (RunStatus::Cancelled, None, Some(by.to_owned()));
    }
    event
}

impl Changes<'_> {
    /// Whether the step releases the lock.
    pub fn releases(&self) -> bool {
        self.outcome != Outcome::Continued
    }

    /// Whether the run ends.
    pub fn ends(&self) -> bool {
        matches!(self.outcome, Outcome::Ended(_))
    }

    /// Whether the slot that the run frees is for another run of the user: not after a hand-over, which takes it again.
    pub fn frees_a_slot(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Ended(_) | Outcome::Waiting { .. } | Outcome::Postponed { counts: true, .. }
        )
    }

    /// When the next attempt is due, or a waiting run goes on by itself.
    pub fn until(&self) -> Option<DateTime<Utc>> {
        match self.outcome {
            Outcome::Postponed { until, .. } | Outcome::Waiting { until } => until,
            _ => None,
        }
    }

    /// What is added to the number of failed attempts; `None` if it becomes 0.
    pub fn failures(&self) -> Option<i32> {
        match self.outcome {
            Outcome::Postponed { counts: true, .. } => Some(1),
            Outcome::Ended(_) | Outcome::Waiting { .. } => None,
            _ => Some(0),
        }
    }

    /// The status that the run gets; `None` if it keeps its status.
    pub fn status(&self) -> Option<RunStatus> {
        match self.outcome {
            Outcome::Continued => None,
            Outcome::Ended(_) if self.cancelled.is_some() => Some(RunStatus::Cancelled),
            Outcome::Ended(ending) | Outcome::Postponed { ending, .. } => Some(ending.status),
            Outcome::Waiting { .. } => Some(RunStatus::Waiting),
            Outcome::HandedOver => Some(RunStatus::Queued),
        }
    }

    /// Whether the step ends the run with the event that follows from the run's row, if the row then has the tokens that
    /// the event states.
    pub fn end_follows(&self, step: &Step) -> bool {
        let (Some(event), true) = (self.last.as_deref(), self.ends()) else { return false };
        let Event::RunFinished { usage, .. } = event else { return false };
        let (code, message) = self.error();
        let end = self.status().map(|status| RunEnd {
            status,
            iterations: step.iterations,
            usage: usage.priced(),
            error_code: code.map(str::to_owned),
            error_message: message.map(str::to_owned),
        });
        end.is_some_and(|end| end.event() == *event)
    }

    /// Error code and text of the run after a step that releases its lock.
    pub fn error(&self) -> (Option<&str>, Option<&str>) {
        match self.outcome {
            Outcome::Ended(ending) | Outcome::Postponed { ending, .. } if self.cancelled.is_none() => {
                (ending.error_code.as_deref(), ending.error_message.as_deref())
            }
            _ => (None, None),
        }
    }
}

#[cfg(test)]
mod tests;
