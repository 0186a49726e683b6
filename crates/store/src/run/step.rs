//! Committing a step of a run behind the fence, in one transaction: history, events, messages, outcome, release.

pub(crate) mod alone;
pub(crate) mod batch;
mod plan;

use chrono::{DateTime, Utc};
use houston_domain::event::derived::of_message;
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::frame::MessageBlock;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::MessageId;
use houston_domain::message::Source;
use houston_domain::model::Usage;
use houston_domain::step::decision::Changes;
use houston_domain::step::{Intent, ModelCall, NewMessage, RunTransition, Step};
use houston_domain::tool_call::{PausedCall, ToolResponse};
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use self::batch::Written;
use self::plan::PlanRows;
use crate::claim::Fence;
use crate::error::Result;
use crate::event::{stored, stream_metadata};
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
    entries: Vec<EntryRow>,
    events: Vec<EventRow>,
    messages: Vec<MessageRow>,
    intents: Vec<IntentRow>,
    responses: Vec<ResponseRow>,
    cells: Vec<CellRow>,
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

/// Input, output, cache read, cache write, reasoning.
type Tokens = [u64; 5];

#[derive(Debug, Serialize)]
struct EntryRow {
    role: &'static str,
    /// The blocks, unless they are the text of one message.
    content: Option<Box<RawValue>>,
    /// The index of the message's event, from 1, if the step adds the message.
    event: Option<usize>,
    /// The message's position, if it is an earlier one.
    message_seq: Option<i64>,
}

#[derive(Debug, Serialize)]
struct EventRow {
    message_id: Option<Uuid>,
    /// `None`: the event follows from a message of the step.
    data: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct IntentRow {
    call_id: String,
    name: String,
    effect: &'static str,
    message_id: Uuid,
    /// The response, if the step has that as well.
    response: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct ResponseRow {
    call_id: String,
    /// `None`: the call is paused, or goes on.
    response: Option<Box<RawValue>>,
    /// The pause as JSON.
    paused: Option<String>,
}

#[derive(Debug, Serialize)]
struct CellRow {
    id: Uuid,
    metadata: Box<RawValue>,
}

#[derive(Debug, Serialize)]
struct MessageRow {
    /// The index of its event, from 1.
    event: usize,
    id: Uuid,
    source: &'static str,
    message_type: &'static str,
    content: String,
    metadata: Box<RawValue>,
}

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
        let events = events.map(|(nth, event)| EventRow::of(nth, event, step));
        let entries = step.entries.iter().map(|entry| EntryRow::of(entry, step));
        let end = changes.ends().then(|| last_usage(changes)).flatten();
        let messages = step.messages.iter().map(|message| MessageRow::of(message, step));
        let intents = step.intents.iter().map(|intent| IntentRow::of(intent, step));
        // A statement does not see the rows that it inserts, so what changes them is inserted with them.
        let responses =
            step.responses.iter().filter(|(call, _)| step.intents.iter().all(|of| of.call != *call));
        let is_open = |call: &String| step.responses.iter().all(|(of, _)| of != call);
        let pauses = step.pauses.iter().filter(|(call, _)| is_open(call));
        let cells = step.cells.iter().filter(|(id, _)| step.messages.iter().all(|of| of.id != *id));
        let (error_code, error_message) = changes.error();
        let mut rows = Self {
            n: 0,
            agentable_id: fence.agentable.0,
            epoch: fence.epoch,
            fence: fence.epoch,
            token: fence.token.0,
            version: None,
            write_id: step.write.0,
            run_id: step.run.0,
            entries: entries.collect::<serde_json::Result<_>>()?,
            events: events.collect::<serde_json::Result<_>>()?,
            messages: messages.collect::<serde_json::Result<_>>()?,
            intents: intents.collect::<serde_json::Result<_>>()?,
            responses: responses
                .map(ResponseRow::of)
                .chain(pauses.map(ResponseRow::of_pause))
                .collect::<serde_json::Result<_>>()?,
            cells: cells.map(CellRow::of).collect::<serde_json::Result<_>>()?,
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
            rows.add_entry(&step.frames, None)?;
        }
        Ok(rows)
    }

    /// Adds a user entry after those of the step. `last`: the position of the message that is its last block, if the
    /// blocks are messages.
    fn add_entry(&mut self, blocks: &[MessageBlock], last: Option<i64>) -> serde_json::Result<()> {
        let texts: Vec<_> = blocks.iter().map(NewText::of).collect();
        let is_message = matches!(blocks, [only] if !only.frame);
        let message_seq = last.filter(|_| is_message);
        let content = if message_seq.is_none() { Some(to_raw_value(&texts)?) } else { None };
        self.entries.push(EntryRow { role: Role::User.as_str(), content, event: None, message_seq });
        Ok(())
    }

    /// The bytes of its texts.
    fn bytes(&self) -> usize {
        let json = |json: &Option<Box<RawValue>>| json.as_ref().map_or(0, |json| json.get().len());
        let entries: usize = self.entries.iter().map(|entry| json(&entry.content)).sum();
        let events: usize = self.events.iter().map(|event| json(&event.data)).sum();
        let messages = self.messages.iter().map(|of| of.content.len() + of.metadata.get().len());
        let intents: usize = self.intents.iter().map(|intent| json(&intent.response)).sum();
        let responses = self.responses.iter();
        let responses = responses.map(|row| json(&row.response) + row.paused.as_ref().map_or(0, String::len));
        let cells = self.cells.iter().map(|cell| cell.metadata.get().len());
        let plan = self.plan.as_ref().map_or(0, PlanRows::bytes);
        entries + events + intents + plan + messages.chain(responses).chain(cells).sum::<usize>()
    }

    /// Whether a plan ends with it, and its agentable is told.
    fn reports_plan(&self) -> bool {
        self.plan.as_ref().is_some_and(PlanRows::reports)
    }

    fn has_tools(&self) -> bool {
        !(self.intents.is_empty() && self.responses.is_empty() && self.cells.is_empty())
    }
}

impl EntryRow {
    fn of(entry: &Entry, step: &Step) -> serde_json::Result<Self> {
        let message = step.messages.iter().find(|message| is_text_of(entry, message));
        Ok(Self {
            role: entry.role.as_str(),
            content: if message.is_none() { Some(to_raw_value(&entry.content)?) } else { None },
            event: message.map(|message| message.event + 1),
            message_seq: None,
        })
    }
}

impl EventRow {
    /// The event of the step with index `nth`.
    fn of(nth: usize, event: &Event, step: &Step) -> serde_json::Result<Self> {
        let message = step.messages.iter().find(|message| message.event == nth);
        let follows = message.and_then(|of| of_message(of.source, of.message_type, of.id));
        let data = if follows.as_ref() == Some(event) { None } else { Some(stored(event)?) };
        Ok(Self { message_id: event.message_id().map(|id| id.0), data })
    }
}

impl MessageRow {
    fn of(message: &NewMessage, step: &Step) -> serde_json::Result<Self> {
        let mut metadata = message.metadata.clone();
        for (_, changed) in step.cells.iter().filter(|(id, _)| *id == message.id) {
            if let (Value::Object(metadata), Value::Object(changed)) = (&mut metadata, changed) {
                metadata.extend(changed.clone());
            }
        }
        Ok(Self {
            event: message.event + 1,
            id: message.id.0,
            source: message.source.as_str(),
            message_type: message.message_type.as_str(),
            content: message.content.clone(),
            metadata: to_raw_value(&metadata)?,
        })
    }
}

impl IntentRow {
    fn of(intent: &Intent, step: &Step) -> serde_json::Result<Self> {
        let response = step.responses.iter().find(|(call, _)| *call == intent.call);
        Ok(Self {
            call_id: intent.call.clone(),
            name: intent.name.clone(),
            effect: intent.effect.as_str(),
            message_id: intent.cell.0,
            response: response.map(|(_, response)| to_raw_value(response)).transpose()?,
        })
    }
}

impl ResponseRow {
    fn of((call, response): &(String, ToolResponse)) -> serde_json::Result<Self> {
        Ok(Self { call_id: call.clone(), response: Some(to_raw_value(response)?), paused: None })
    }

    fn of_pause((call, paused): &(String, Option<PausedCall>)) -> serde_json::Result<Self> {
        let paused = paused.as_ref().map(serde_json::to_string).transpose()?;
        Ok(Self { call_id: call.clone(), response: None, paused })
    }
}

impl CellRow {
    fn of((id, metadata): &(MessageId, Value)) -> serde_json::Result<Self> {
        Ok(Self { id: id.0, metadata: to_raw_value(metadata)? })
    }
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
