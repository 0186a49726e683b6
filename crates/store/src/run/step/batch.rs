//! Many steps in one commit, written set by set.
//!
//! What a step changes is decided before its row is locked ([`undisturbed`]), on the assumption that nothing has
//! arrived since the step before it. The statement checks this under the lock: it writes only the steps whose fence
//! holds, whose agentable is not awake, and whose end concerns no other agentable. It waits for no lock. The caller
//! commits every other step by itself ([`alone`](super::alone)): its changes are decided under the lock, and the same
//! statement writes them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use houston_domain::event::Event;
use houston_domain::event::derived::of_message;
use houston_domain::frame::MessageBlock;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::{MessageId, UserId};
use houston_domain::message::Source;
use houston_domain::model::Usage;
use houston_domain::step::decision::{Changes, undisturbed};
use houston_domain::step::{Intent, ModelCall, NewMessage, Step};
use houston_domain::tool_call::ToolResponse;
use houston_faults::mutation::{self, Mutation};
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{CommittedStep, statement};
use crate::batcher::Batch;
use crate::claim::Fence;
use crate::error::Result;
use crate::handle::RunStore;
use crate::stored_block::NewText;
use crate::sweep::Due;

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
    pub(super) fence: i64,
    pub(super) token: Uuid,
    /// The version of the lock's row for which the changes were decided; `None`: they are those of a step that nothing
    /// disturbs.
    pub(super) version: Option<String>,
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
    pub(super) call: Option<CallRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct CallRow {
    provider: String,
    model: String,
    iteration: u32,
    tokens: Tokens,
    cost: Option<Decimal>,
    reported: bool,
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
    response: Box<RawValue>,
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

/// The result of a committed step.
#[derive(Debug)]
pub(crate) struct Written {
    /// The position of the newest event before the step.
    pub(super) last_seq: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) waiting: Vec<Due>,
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
    pub(super) fn of(fence: &Fence, step: &Step, changes: &Changes<'_>) -> serde_json::Result<Self> {
        let events = step.events.iter().chain(changes.last.as_deref()).enumerate();
        let events = events.map(|(nth, event)| EventRow::of(nth, event, step));
        let entries = step.entries.iter().map(|entry| EntryRow::of(entry, step));
        let end = changes.ends().then(|| last_usage(changes)).flatten();
        let messages = step.messages.iter().map(|message| MessageRow::of(message, step));
        let intents = step.intents.iter().map(|intent| IntentRow::of(intent, step));
        // A statement does not see the rows that it inserts, so what changes them is inserted with them.
        let responses =
            step.responses.iter().filter(|(call, _)| step.intents.iter().all(|of| of.call != *call));
        let cells = step.cells.iter().filter(|(id, _)| step.messages.iter().all(|of| of.id != *id));
        let (error_code, error_message) = changes.error();
        Ok(Self {
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
            responses: responses.map(ResponseRow::of).collect::<serde_json::Result<_>>()?,
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
            call: step.call.as_ref().map(CallRow::of),
        })
    }

    /// Adds a user entry after those of the step. `last`: the position of the message that is its last block, if the
    /// blocks are messages.
    pub(super) fn add_entry(&mut self, blocks: &[MessageBlock], last: Option<i64>) -> serde_json::Result<()> {
        let texts: Vec<_> = blocks.iter().map(NewText::of).collect();
        let is_message = matches!(blocks, [only] if !only.frame);
        let message_seq = last.filter(|_| is_message);
        let content = if message_seq.is_none() { Some(to_raw_value(&texts)?) } else { None };
        self.entries.push(EntryRow { role: Role::User.as_str(), content, event: None, message_seq });
        Ok(())
    }

    fn has_tools(&self) -> bool {
        !(self.intents.is_empty() && self.responses.is_empty() && self.cells.is_empty())
    }
}

impl StepRows {
    /// Makes the step expect the epoch and the token that the lock has now, so that it is not fenced.
    async fn take_present_fence(&mut self, connection: &mut PgConnection) -> Result<()> {
        let now = sqlx::query!(
            "-- store::step::batch::present_fence
            select epoch, run_token from houston.run_locks where agentable_id = $1",
            self.agentable_id
        )
        .fetch_one(connection)
        .await?;
        (self.fence, self.token) = (now.epoch, now.run_token.unwrap_or_default());
        Ok(())
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
        let data = if follows.as_ref() == Some(event) { None } else { Some(to_raw_value(event)?) };
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
        Ok(Self { call_id: call.clone(), response: to_raw_value(response)? })
    }
}

impl CellRow {
    fn of((id, metadata): &(MessageId, Value)) -> serde_json::Result<Self> {
        Ok(Self { id: id.0, metadata: to_raw_value(metadata)? })
    }
}

impl CallRow {
    fn of(call: &ModelCall) -> Self {
        Self {
            provider: call.provider.clone(),
            model: call.model.clone(),
            iteration: call.iteration,
            tokens: tokens(&call.usage),
            cost: call.usage.cost,
            reported: call.reported,
        }
    }
}

impl RunStore {
    /// Commits a step together with others; `None` if it was not, and may be committed by itself.
    pub(super) async fn commit_in_batch(&self, fence: &Fence, step: &Step) -> Option<CommittedStep> {
        // These weaken steps that are committed by themselves.
        if self.is_unbatched || mutation::is(Mutation::Fence) || mutation::is(Mutation::RowLock) {
            return None;
        }
        if !step.large_results.is_empty() {
            return None;
        }
        let changes = undisturbed(step)?;
        let written = self.batchers.steps.submit(StepRows::of(fence, step, &changes).ok()?).await?;
        Some(CommittedStep::new(step, changes, None, written))
    }
}

/// How steps are written: see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// See [`Fairness::max_running`](crate::Fairness::max_running).
    pub(crate) max_running: i32,
}

impl Batch for Steps {
    type Item = StepRows;
    type Done = Written;
    type Key = Uuid;
    /// One, so that no batch waits until another one with steps of the same user is flushed.
    const CONNECTIONS: usize = 1;

    fn keys(item: &StepRows) -> impl Iterator<Item = Uuid> {
        std::iter::once(item.agentable_id)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [StepRows],
    ) -> Result<Vec<Option<Written>>> {
        items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
        if let (true, Some(first)) = (mutation::is(Mutation::BatchFence), items.first_mut()) {
            first.take_present_fence(&mut *connection).await?;
        }
        houston_faults::fault!("C25")?;
        let rows = if items.iter().any(StepRows::has_tools) {
            statement::write_with_tools(connection, items, self.max_running).await?
        } else {
            statement::write(connection, items, self.max_running).await?
        };
        houston_faults::fault!("C26")?;
        let mut written: Vec<Option<Written>> = items.iter().map(|_| None).collect();
        // Each step of the batch that ended a run of the same user freed one slot more.
        let mut freed: HashMap<UserId, i32> = HashMap::new();
        for row in rows {
            let Some(place) = usize::try_from(row.n).ok().and_then(|n| written.get_mut(n)) else { continue };
            let earlier = freed.entry(UserId(row.user_id)).or_default();
            let slots = row.slots.unwrap_or(0).saturating_add(*earlier);
            *earlier += 1;
            let mut waiting = Due::all(row.waiting, row.kinds);
            waiting.truncate(usize::try_from(slots).unwrap_or(0));
            *place = Some(Written { last_seq: row.last_seq, at: row.at, waiting });
        }
        Ok(written)
    }
}
