//! Committing a step of a run behind the fence, in one transaction: history, events, messages, outcome, release.

use chrono::{DateTime, Utc};
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::frame::MessageBlock;
use houston_domain::step::decision::Changes;
use houston_domain::step::{RunTransition, Step};

use self::batch::Written;
use crate::claim::Fence;
use crate::error::Result;
use crate::event::stream_metadata;
use crate::handle::RunStore;
use crate::sweep::Due;

pub(crate) mod alone;
pub(crate) mod batch;
mod end;
pub(crate) mod rows;
mod statement;

/// The result of a commit.
#[derive(Debug, Clone, PartialEq)]
pub enum Commit {
    /// The step was committed now.
    Done(CommittedStep),
    /// An earlier try of the same step had been committed: reload the run's state.
    AlreadyCommitted,
}

/// A committed step.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedStep {
    /// The events as committed, for live streams.
    pub events: Vec<Committed>,
    /// The unread messages that entered the history after the step's own entries.
    pub read: Vec<MessageBlock>,
    /// Whether the run continues although [`RunTransition::Complete`] or [`RunTransition::Wait`] was asked for.
    pub continued: bool,
    /// Whether unread messages opened the next run.
    pub opened: bool,
    /// The newest `seq` when a cancel was requested. A run that was to end has then ended as cancelled.
    pub cancel_seq: Option<i64>,
    /// Agentables of the same user that may run now that this lock was released.
    pub waiting: Vec<Due>,
}

impl RunStore {
    /// Commits `step`. Idempotent by `step.write`: sent again after an unknown outcome, it changes nothing twice.
    ///
    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced) when another worker has claimed the run: stop and write nothing.
    /// [`Error::PlanChanged`](crate::Error::PlanChanged) when the step is of a plan that something else has changed since the
    /// run read it: read it again.
    /// [`Error::Database`](crate::Error::Database) when
    /// Postgres fails: the outcome is unknown, send the same step again.
    pub async fn commit(&self, fence: &Fence, step: &Step) -> Result<Commit> {
        let done = match self.commit_in_batch(fence, step).await {
            Some(done) => Commit::Done(done),
            // Boxed: it is rare, and its future is large.
            None => Box::pin(self.commit_alone(fence, step)).await?,
        };
        if matches!(step.transition, RunTransition::Complete { .. } | RunTransition::Terminate { .. }) {
            houston_faults::fault!("C14")?;
            if !matches!(&done, Commit::Done(done) if done.continued) {
                self.count_tokens(fence.agentable, step.run).await;
            }
        }
        Ok(done)
    }
}

impl CommittedStep {
    /// The result of a step that was written with these changes. `cancel_seq`: see the field.
    fn new(step: &Step, changes: Changes<'_>, cancel_seq: Option<i64>, written: Written) -> Self {
        let events = committed_events(step, &changes, written.last_seq + 1, written.at);
        Self {
            events,
            continued: !changes.releases()
                && matches!(step.transition, RunTransition::Complete { .. } | RunTransition::Wait { .. }),
            opened: changes.next_run.is_some(),
            read: changes.read,
            cancel_seq,
            waiting: written.waiting,
        }
    }
}

/// The step's events with their positions.
fn committed_events(step: &Step, changes: &Changes<'_>, first: i64, at: DateTime<Utc>) -> Vec<Committed> {
    let event = |(event, seq): (&Event, i64)| Committed {
        seq,
        run_id: step.run,
        at,
        event: event.clone(),
        body: None,
    };
    let mut events: Vec<Committed> =
        step.events.iter().chain(changes.last.as_deref()).zip(first..).map(event).collect();
    for message in &step.messages {
        if let Some(event) = events.get_mut(message.event) {
            event.body = Some(MessageBody {
                source: message.source,
                message_type: message.message_type,
                content: message.content.clone(),
                metadata: stream_metadata(message.metadata.clone()),
            });
        }
    }
    if let (Some(next_run), Some(last)) = (changes.next_run, events.last()) {
        let seq = last.seq + 1;
        events.push(Committed { seq, run_id: next_run, at, event: Event::RunQueued {}, body: None });
    }
    events
}
