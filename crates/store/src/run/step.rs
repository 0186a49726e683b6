//! Committing a step of a run behind the fence, in one transaction: history, events, messages, outcome, release.

pub(crate) mod alone;
pub(crate) mod batch;
mod plan;

use chrono::{DateTime, Utc};
use houston_domain::event::derived::of_message;
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::frame::MessageBlock;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::message::Source;
use houston_domain::model::Usage;
use houston_domain::step::decision::Changes;
use houston_domain::step::{Intent, ModelCall, NewMessage, RunTransition, Step};
use houston_domain::tool_call::ToolResponse;
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use self::batch::Written;
use self::plan::PlanRows;
use crate::claim::Fence;
use crate::error::Result;
use crate::event::{StoredEvent, stored, stream_metadata};
use crate::handle::RunStore;
use crate::history::NewText;
use crate::sweep::Due;

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

/// A step of a batch: what it changes in the rows of its lock and its run, the rows it adds, and the model call it pays
/// for.
#[derive(Debug, Serialize)]
pub(crate) struct StepRows {
    /// Index of the step in its batch.
    n: usize,
    agentable_id: Uuid,
    /// The epoch of the rows that it adds.
    epoch: i64,
    /// The epoch and the token that the lock must have.
    fence: i64,
    token: Uuid,
    /// The version of the lock's row for which the changes were decided; `None`: they are those of a step that nothing
    /// disturbs.
    version: Option<String>,
    write_id: Uuid,
    run_id: Uuid,
    entries: Rows,
    events: Rows,
    messages: Rows,
    intents: Rows,
    responses: Rows,
    cells: Rows,
    is_progress: bool,
    forgives_deaths: bool,
    releases: bool,
    ends: bool,
    next_run: Option<Uuid>,
    read_seq: Option<i64>,
    unread: Option<i32>,
    wakes: bool,
    frees_a_slot: bool,
    until: Option<DateTime<Utc>>,
    failures: Option<i32>,
    status: Option<&'static str>,
    error_code: Option<String>,
    error_message: Option<String>,
    iterations: u32,
    model: Option<String>,
    used: Tokens,
    /// If the last event follows from the run's row: the tokens of the run after the step that it states.
    total: Option<Tokens>,
    /// The cost that the event which ends the run states.
    last_cost: Option<Decimal>,
    /// The model call that it pays for.
    call: Option<Value>,
    /// What it changes in the plan whose run this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanRows>,
}

/// Rows as JSON.
type Rows = Vec<Box<RawValue>>;

/// Input, output, cache read, cache write, reasoning.
type Tokens = [u64; 5];

fn tokens(usage: &Usage) -> Tokens {
    [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ]
}

/// The usage that the event which ends the run states.
fn last_usage<'c>(changes: &'c Changes<'_>) -> Option<&'c Usage> {
    match changes.last.as_deref() {
        Some(Event::RunFinished { usage, .. }) => Some(usage),
        _ => None,
    }
}

/// Whether the entry is nothing but the text of the message.
fn is_text_of(entry: &Entry, message: &NewMessage) -> bool {
    message.source != Source::Error
        && matches!(entry.content.as_slice(), [Block::Text { text, raw: None }] if *text == message.content)
}

impl StepRows {
    /// The rows of a step with its changes.
    fn of(fence: &Fence, step: &Step, changes: &Changes<'_>) -> serde_json::Result<Self> {
        let events = step.events.iter().chain(changes.last.as_deref()).enumerate();
        let end = changes.ends().then(|| last_usage(changes)).flatten();
        // A statement does not see the rows that it inserts, so what changes them is inserted with them.
        let responses =
            step.responses.iter().filter(|(call, _)| step.intents.iter().all(|of| of.call != *call));
        let responses = responses.map(|(call_id, response)| ResponseRow {
            call_id,
            response: Some(response),
            paused: None,
        });
        let is_open = |call: &String| step.responses.iter().all(|(of, _)| of != call);
        let pauses = step.pauses.iter().filter(|(call, _)| is_open(call)).map(|(call_id, paused)| {
            let paused = paused.as_ref().map(serde_json::to_string).transpose()?;
            Ok(ResponseRow { call_id, response: None, paused })
        });
        let responses = responses.map(Ok).chain(pauses);
        let cells = step.cells.iter().filter(|(id, _)| step.messages.iter().all(|of| of.id != *id));
        let cells = cells.map(|(id, metadata)| CellRow { id: id.0, metadata });
        let (error_code, error_message) = changes.error();
        let mut this = Self {
            n: 0,
            agentable_id: fence.agentable.0,
            epoch: fence.epoch,
            fence: fence.epoch,
            token: fence.token.0,
            version: None,
            write_id: step.write.0,
            run_id: step.run.0,
            entries: rows(step.entries.iter().map(|entry| Ok(entry_row(entry, step))))?,
            events: rows(events.map(|(nth, event)| Ok(event_row(nth, event, step))))?,
            messages: rows(step.messages.iter().map(|message| Ok(message_row(message, step))))?,
            intents: rows(step.intents.iter().map(|intent| Ok(intent_row(intent, step))))?,
            responses: rows(responses)?,
            cells: rows(cells.map(Ok))?,
            is_progress: changes.is_progress,
            forgives_deaths: changes.forgives_deaths,
            releases: changes.releases(),
            ends: changes.ends(),
            next_run: changes.next_run.map(|run| run.0),
            read_seq: changes.read_seq,
            unread: changes.unread,
            wakes: changes.wakes,
            frees_a_slot: changes.frees_a_slot(),
            until: changes.until(),
            failures: changes.failures(),
            status: changes.status().map(|status| status.as_str()),
            error_code: error_code.map(str::to_owned),
            error_message: error_message.map(str::to_owned),
            iterations: step.iterations,
            model: step.model.clone(),
            used: tokens(&step.usage),
            total: end.filter(|_| changes.end_follows(step)).map(tokens),
            last_cost: end.and_then(|usage| usage.cost),
            call: step.call.as_ref().map(call_row),
            plan: step.plan.as_deref().map(PlanRows::of).transpose()?,
        };
        if !step.frames.is_empty() {
            this.add_entry(&step.frames, None)?;
        }
        Ok(this)
    }

    /// Adds a user entry after those of the step. `last`: the position of the message that is its last block, if the
    /// blocks are messages.
    fn add_entry(&mut self, blocks: &[MessageBlock], last: Option<i64>) -> serde_json::Result<()> {
        let texts: Vec<_> = blocks.iter().map(NewText::of).collect();
        let is_message = matches!(blocks, [only] if !only.frame);
        let message_seq = last.filter(|_| is_message);
        let content = message_seq.is_none().then_some(texts);
        let row = EntryRow { role: Role::User.as_str(), content, event: None, message_seq };
        self.entries.push(to_raw_value(&row)?);
        Ok(())
    }

    /// The bytes of its rows.
    fn bytes(&self) -> usize {
        let rows = [&self.entries, &self.events, &self.messages, &self.intents, &self.responses, &self.cells];
        let plan = self.plan.as_ref().map_or(0, PlanRows::bytes);
        plan + rows.into_iter().flatten().map(|row| row.get().len()).sum::<usize>()
    }

    fn has_tools(&self) -> bool {
        !(self.intents.is_empty() && self.responses.is_empty() && self.cells.is_empty())
    }
}

/// Each row is written once, and copied into its statement: what steps say may be long.
fn rows<R: Serialize>(rows: impl Iterator<Item = serde_json::Result<R>>) -> serde_json::Result<Rows> {
    rows.map(|row| to_raw_value(&row?)).collect()
}

/// An entry, whose content is blocks or texts.
#[derive(Serialize)]
struct EntryRow<C> {
    role: &'static str,
    /// `None`: it is the text of one message.
    content: Option<C>,
    /// The index of the message's event, from 1, if the step adds the message.
    event: Option<usize>,
    /// The message's position, if it is an earlier one.
    message_seq: Option<i64>,
}

fn entry_row<'a>(entry: &'a Entry, step: &Step) -> EntryRow<&'a [Block]> {
    let event = step.messages.iter().find(|message| is_text_of(entry, message)).map(|of| of.event + 1);
    let content = event.is_none().then_some(&*entry.content);
    EntryRow { role: entry.role.as_str(), content, event, message_seq: None }
}

#[derive(Serialize)]
struct EventRow<'a> {
    message_id: Option<Uuid>,
    /// `None`: the event follows from a message of the step.
    data: Option<StoredEvent<'a>>,
}

/// The event of the step with index `nth`.
fn event_row<'a>(nth: usize, event: &'a Event, step: &Step) -> EventRow<'a> {
    let message = step.messages.iter().find(|message| message.event == nth);
    let follows = message.and_then(|of| of_message(of.source, of.message_type, of.id));
    let data = (follows.as_ref() != Some(event)).then(|| stored(event));
    EventRow { message_id: event.message_id().map(|id| id.0), data }
}

#[derive(Serialize)]
struct MessageRow<'a> {
    /// The index of its event, from 1.
    event: usize,
    id: Uuid,
    source: &'static str,
    message_type: &'static str,
    content: &'a str,
    metadata: Value,
}

fn message_row<'a>(message: &'a NewMessage, step: &Step) -> MessageRow<'a> {
    let mut metadata = message.metadata.clone();
    for (_, changed) in step.cells.iter().filter(|(id, _)| *id == message.id) {
        if let (Value::Object(metadata), Value::Object(changed)) = (&mut metadata, changed) {
            metadata.extend(changed.clone());
        }
    }
    let (source, message_type) = (message.source.as_str(), message.message_type.as_str());
    let (event, content) = (message.event + 1, &message.content);
    MessageRow { event, id: message.id.0, source, message_type, content, metadata }
}

#[derive(Serialize)]
struct IntentRow<'a> {
    call_id: &'a str,
    name: &'a str,
    effect: &'static str,
    message_id: Uuid,
    /// The response, if the step has that as well.
    response: Option<&'a ToolResponse>,
}

fn intent_row<'a>(Intent { call, name, effect, cell }: &'a Intent, step: &'a Step) -> IntentRow<'a> {
    let response = step.responses.iter().find(|(of, _)| of == call).map(|(_, response)| response);
    IntentRow { call_id: call, name, effect: effect.as_str(), message_id: cell.0, response }
}

#[derive(Serialize)]
struct ResponseRow<'a> {
    call_id: &'a str,
    /// `None`: the call is paused, or goes on.
    response: Option<&'a ToolResponse>,
    /// The pause as JSON.
    paused: Option<String>,
}

#[derive(Serialize)]
struct CellRow<'a> {
    id: Uuid,
    metadata: &'a Value,
}

/// A model call as its row.
fn call_row(call: &ModelCall) -> Value {
    let millis = |millis: u32| i32::try_from(millis).unwrap_or(i32::MAX);
    json!({
        "provider": call.provider,
        "model": call.model,
        "iteration": call.iteration,
        "tokens": tokens(&call.usage),
        "cost": call.usage.cost,
        "reported": call.reported,
        "first_event_ms": call.timing.map(|timing| millis(timing.first_event_ms)),
        "took_ms": call.timing.map(|timing| millis(timing.took_ms)),
    })
}
