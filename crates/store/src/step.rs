//! Committing a step of a run behind the fence, in one transaction: history, events, messages, outcome, release.

use chrono::{DateTime, Utc};
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::frame::MessageBlock;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, ModelCall, RunTransition, Step};
use houston_domain::tool_call::ToolResponse;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::event::stream_metadata;
use crate::fairness::Fairness;
use crate::pool::Store;
use crate::sweep::Due;

pub(crate) mod batch;

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
    /// Whether the run continues although [`RunTransition::Complete`] was asked for.
    pub continued: bool,
    /// Whether unread messages opened the next run.
    pub opened: bool,
    /// The newest `seq` when a cancel was requested. A run that was to end has then ended as cancelled.
    pub cancel_seq: Option<i64>,
    /// Agentables of the same user that may run now that this lock was released.
    pub waiting: Vec<Due>,
}

/// The arguments of `houston.commit_step` that follow from a transition.
struct Parts<'a> {
    then: &'static str,
    read: bool,
    last: Option<&'a Event>,
    go_on: Option<&'a Event>,
    ending: Option<&'a Ending>,
    status: Option<&'static str>,
    retry_at: Option<DateTime<Utc>>,
}

impl<'a> Parts<'a> {
    fn of(transition: &'a RunTransition) -> Self {
        let mut parts = Parts {
            then: "go_on",
            read: false,
            last: None,
            go_on: None,
            ending: None,
            status: None,
            retry_at: None,
        };
        match transition {
            RunTransition::Continue { read, event } => {
                parts.read = *read;
                parts.go_on = event.as_ref();
            }
            RunTransition::Complete { event, continue_event, ending } => {
                parts.then = "finish";
                parts.last = Some(event);
                parts.go_on = Some(continue_event);
                parts.ending = Some(ending);
            }
            RunTransition::Terminate { event, ending } => {
                parts.then = "end";
                parts.last = Some(event);
                parts.ending = Some(ending);
            }
            RunTransition::Retry { event, at, counts, ending } => {
                parts.then = if *counts { "retry" } else { "hand_over" };
                parts.last = Some(event);
                parts.ending = Some(ending);
                parts.retry_at = Some(*at);
            }
            RunTransition::Release { event } => {
                parts.then = "hand_over";
                parts.last = Some(event);
                parts.status = Some(RunStatus::Queued.as_str());
            }
        }
        if let Some(ending) = parts.ending {
            parts.status = Some(ending.status.as_str());
        }
        parts
    }
}

impl Store {
    /// Commits `step`. Idempotent by `step.write`: sent again after an unknown outcome, it changes nothing twice.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has claimed the run: stop and write nothing. [`Error::Database`] when
    /// Postgres fails: the outcome is unknown, send the same step again.
    pub async fn commit(&self, fence: &Fence, step: &Step) -> Result<Commit> {
        let done = match self.commit_in_batch(fence, step).await {
            Some(done) => Commit::Done(done),
            None => self.commit_whole(fence, step).await?,
        };
        if matches!(step.transition, RunTransition::Complete { .. } | RunTransition::Terminate { .. }) {
            houston_faults::fault!("C14")?;
        }
        Ok(done)
    }
}

/// See [`Store::commit`].
#[expect(clippy::too_many_lines, reason = "one statement: its parameters are its length")]
pub(crate) async fn commit(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &Step,
    fairness: Fairness,
) -> Result<Commit> {
    let parts = Parts::of(&step.transition);
    let roles: Vec<&str> = step.entries.iter().map(|entry| entry.role.as_str()).collect();
    let contents: Vec<_> = step.entries.iter().map(|entry| Json(&entry.content)).collect();
    let events: Vec<_> = step.events.iter().map(Json).collect();
    let event_messages: Vec<Option<Uuid>> =
        step.events.iter().map(|event| event.message_id().map(|id| id.0)).collect();
    let message_ids: Vec<Uuid> = step.messages.iter().map(|message| message.id.0).collect();
    let message_events: Vec<i32> =
        step.messages.iter().map(|message| i32::try_from(message.event + 1).unwrap_or(i32::MAX)).collect();
    let sources: Vec<&str> = step.messages.iter().map(|message| message.source.as_str()).collect();
    let types: Vec<&str> = step.messages.iter().map(|message| message.message_type.as_str()).collect();
    let texts: Vec<&str> = step.messages.iter().map(|message| message.content.as_str()).collect();
    let metadata: Vec<&Value> = step.messages.iter().map(|message| &message.metadata).collect();
    let calls: Vec<&str> = step.intents.iter().map(|intent| intent.call.as_str()).collect();
    let names: Vec<&str> = step.intents.iter().map(|intent| intent.name.as_str()).collect();
    let effects: Vec<&str> = step.intents.iter().map(|intent| intent.effect.as_str()).collect();
    let intent_cells: Vec<Uuid> = step.intents.iter().map(|intent| intent.cell.0).collect();
    let answered: Vec<&str> = step.responses.iter().map(|(call, _)| call.as_str()).collect();
    let responses: Vec<_> = step.responses.iter().map(|(_, response)| Json(response)).collect();
    let cells: Vec<Uuid> = step.cells.iter().map(|(id, _)| id.0).collect();
    let cell_metadata: Vec<&Value> = step.cells.iter().map(|(_, metadata)| metadata).collect();
    let usage = [
        step.usage.input_tokens,
        step.usage.output_tokens,
        step.usage.cache_read_tokens,
        step.usage.cache_write_tokens,
        step.usage.reasoning_tokens,
    ]
    .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
    let row = sqlx::query!(
        r#"-- store::step::commit
        select outcome, first_seq, last_seq, at, read_blocks as "read_blocks: Vec<Json<MessageBlock>>", cancel_seq, opened, cancelled_by, waiting,
            waiting_kinds, case when outcome = 'committed' and $23 in ('finish', 'end')
                           then houston.end_run($1, $38, (select read_seq from houston.run_locks where agentable_id = $1), $35)
                           end as ended,
            case when outcome in ('committed', 'went_on') and $39::jsonb is not null
                           then houston.count_call($1, $38, $4, at, $39) end as counted
          from houston.commit_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
               $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)"#,
        fence.agentable.0,
        fence.epoch,
        fence.token.0,
        step.write.0,
        &roles as &[&str],
        &contents as &[Json<&Vec<houston_domain::history::Block>>],
        &events as &[Json<&Event>],
        &event_messages as &[Option<Uuid>],
        &message_ids,
        &message_events,
        &sources as &[&str],
        &types as &[&str],
        &texts as &[&str],
        &metadata as &[&Value],
        &calls as &[&str],
        &names as &[&str],
        &effects as &[&str],
        &intent_cells,
        &answered as &[&str],
        &responses as &[Json<&ToolResponse>],
        &cells,
        &cell_metadata as &[&Value],
        parts.then,
        parts.read,
        parts.last.map(Json) as Option<Json<&Event>>,
        parts.go_on.map(Json) as Option<Json<&Event>>,
        parts.ending.map(|ending| ending.next_run.0),
        parts.status,
        i32::try_from(step.iterations).unwrap_or(i32::MAX),
        &usage,
        step.model.as_deref(),
        parts.ending.and_then(|ending| ending.error_code.as_deref()),
        parts.ending.and_then(|ending| ending.error_message.as_deref()),
        parts.retry_at,
        fairness.running(),
        fairness.messages(),
        fairness.bytes(),
        step.run.0,
        step.call.as_ref().map(Json) as Option<Json<&ModelCall>>
    )
    .fetch_one(connection)
    .await?;
    match row.outcome.as_deref() {
        Some("landed") => Ok(Commit::AlreadyCommitted),
        Some(outcome @ ("committed" | "went_on")) => {
            let continued = outcome == "went_on";
            let opened = row.opened.unwrap_or(false);
            let first = row.first_seq.unwrap_or(0);
            Ok(Commit::Done(CommittedStep {
                events: committed(
                    step,
                    first,
                    row.at.unwrap_or_default(),
                    (continued, opened),
                    row.cancelled_by,
                ),
                read: row
                    .read_blocks
                    .filter(|_| continued || parts.read)
                    .map_or_else(Vec::new, |blocks| blocks.into_iter().map(|block| block.0).collect()),
                continued,
                opened,
                cancel_seq: row.cancel_seq,
                waiting: Due::all(row.waiting, row.waiting_kinds),
            }))
        }
        _ => Err(Error::Fenced),
    }
}

/// The step's events with their positions.
fn committed(
    step: &Step,
    first: i64,
    at: DateTime<Utc>,
    (continued, opened): (bool, bool),
    cancelled_by: Option<String>,
) -> Vec<Committed> {
    let parts = Parts::of(&step.transition);
    let last = if continued || parts.last.is_none() { parts.go_on } else { parts.last };
    let mut events: Vec<Committed> = step
        .events
        .iter()
        .chain(last)
        .zip(first..)
        .map(|(event, seq)| Committed { seq, run_id: step.run, at, event: event.clone(), body: None })
        .collect();
    if let (Some(by), Some(last)) = (cancelled_by, events.last_mut())
        && let Event::RunFinished { status, message, code, .. } = &mut last.event
    {
        // `houston.commit_step` stores the same event.
        (*status, *message, *code) = (RunStatus::Cancelled, None, Some(by));
    }
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
    if let (true, Some(ending), Some(last)) = (opened, parts.ending, events.last()) {
        let seq = last.seq + 1;
        events.push(Committed { seq, run_id: ending.next_run, at, event: Event::RunQueued {}, body: None });
    }
    events
}
