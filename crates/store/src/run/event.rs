//! Reading the durable event stream.

pub(crate) mod asked;
pub(crate) mod batch;
mod outline;
pub(crate) mod position;
mod wait;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::event::derived::{RunEnd, RunRow, of_first_attempt, of_message};
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::{AgentableId, MessageId, RunId};
use houston_domain::model::{PricedApart, Usage};
use houston_domain::run::RunStatus;
use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use self::batch::{Page, StreamRead};
use crate::error::{Error, Result};
use crate::handle::{ApiStore, RunStore, TenantStore};
use crate::message::{message_type, source};
use crate::row_security::with_connection;

pub(crate) use outline::Whole;
pub(crate) use position::only;
pub use position::{AnyEvent, EventPage, EventPosition, InvalidPosition};

/// The end of an agentable's event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHead {
    /// The position of the newest event.
    pub last_seq: i64,
    /// Whether a run is open.
    pub run_open: bool,
    /// The open run, or the latest one, and the position of its first event.
    pub run: Option<(RunId, i64)>,
    /// The position of the first event that is kept: those before it were deleted by age.
    pub events_from: i64,
}

/// The iteration that was in progress at some position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenIteration {
    /// The id reserved for the iteration's message.
    pub message: MessageId,
    /// The iteration's number, from 1.
    pub number: u32,
    /// Whether its thought, a tool call or its message had been committed by then.
    pub thought_committed: bool,
    /// Whether its message had been committed by then.
    pub message_committed: bool,
}

/// Metadata as streams send it: `null` instead of an empty object.
pub(crate) fn stream_metadata(metadata: Value) -> Value {
    if metadata.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { metadata }
}

impl TenantStore<'_> {
    /// Events of an agentable of the tenant after position `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// [`Error::EventsExpired`] when some of them were deleted by age, [`Error::Database`] when Postgres cannot be reached
    /// or refuses the statement, [`Error::Inconsistent`] when an event cannot be decoded.
    pub async fn events_after(
        self,
        agentable: AgentableId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Committed>> {
        let read = StreamRead { agentable, tenant: self.tenant, kind: None, after: Some(after), limit };
        let page = self.read_stream(read).await?;
        Ok(page.map_or_else(Vec::new, |(_, events)| events))
    }

    /// The end of the event stream of an agentable of the tenant, and its events after position `after`, in order, at
    /// most `limit`; without `after`, those of its open or latest run that are kept.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable of this kind, [`Error::EventsExpired`] when some of the
    /// events were deleted by age, [`Error::Database`] when Postgres cannot be reached or refuses the statement,
    /// [`Error::Inconsistent`] when an event cannot be decoded.
    pub async fn open_stream(
        self,
        kind: &str,
        agentable: AgentableId,
        after: Option<i64>,
        limit: i64,
    ) -> Result<(StreamHead, Vec<Committed>)> {
        let kind = Some(kind.to_owned());
        let read = StreamRead { agentable, tenant: self.tenant, kind, after, limit };
        let page = self.read_stream(read).await?;
        page.ok_or(Error::NotFound { what: "agentable" })
    }

    async fn read_stream(self, read: StreamRead) -> Result<Page> {
        let after = read.after;
        let page = match self.batchers.streams.submit(read.clone()).await {
            Some(page) => page,
            None => with_connection!(self.pool, |c| batch::read(c, &[read])).pop().unwrap_or(Ok(None)),
        }?;
        // Without the deleted ones, what is left would look like the whole.
        let from = page.as_ref().map_or(1, |(head, _)| head.events_from);
        match after.filter(|after| *after < from - 1) {
            Some(_) => Err(Error::EventsExpired { from }),
            None => Ok(page),
        }
    }

    /// Thread events of an agentable of the tenant before position `before` (messages, tool calls and results), newest
    /// first, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn thread_events_before(
        self,
        agentable: AgentableId,
        before: i64,
        limit: i64,
    ) -> Result<Vec<Committed>> {
        let rows = sqlx::query!(
            r#"-- store::event::thread_before
            select t.seq as "seq!", t.at as "at!", t.data as "data: Json<Event>", t.id as "id!", t.source as "source!",
                   t.message_type as "message_type!", t.content as "content!", t.metadata as "metadata!",
                   (select r.id from houston.runs r where r.agentable_id = $1 and r.first_seq <= t.seq
                     order by r.first_seq desc limit 1) as "run_id!"
              from ((select e.seq, e.created_at as at, e.data, m.id, m.source, m.message_type, m.content, m.metadata
                       from houston.events e join houston.messages m on m.id = e.message_id
                      where e.tenant_id = $4 and e.agentable_id = $1 and e.seq < $2
                      order by e.seq desc limit $3)
                    union all
                    (select m.seq, m.created_at, null, m.id, m.source, m.message_type, m.content, m.metadata
                       from houston.messages m
                      where m.tenant_id = $4 and m.agentable_id = $1 and m.seq < $2
                        and not exists (select from houston.events e where e.agentable_id = $1 and e.seq = m.seq)
                      order by m.seq desc limit $3)) as t
             order by t.seq desc limit $3"#,
            agentable.0,
            before,
            limit,
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        let committed = rows.into_iter().filter_map(|row| {
            let message = StreamMessage {
                id: MessageId(row.id),
                seq: row.seq,
                at: row.at,
                source: row.source,
                message_type: row.message_type,
                content: row.content,
                metadata: row.metadata,
            };
            match row.data {
                Some(event) => Some(message.named_by(event.0, RunId(row.run_id))),
                None => message.committed(RunId(row.run_id)),
            }
        });
        Ok(committed.collect())
    }
}

impl ApiStore {
    /// The newest positions of these agentables, for streams that may have missed a nudge.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn last_seqs(&self, agentables: &[Uuid]) -> Result<Vec<(AgentableId, i64)>> {
        let rows = sqlx::query!(
            "-- store::event::last_seqs
            select agentable_id, last_seq from houston.run_locks where agentable_id = any($1)",
            agentables
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (AgentableId(row.agentable_id), row.last_seq)).collect())
    }
}

impl RunStore {
    /// The message id reserved for the iteration that was open at position `seq`, if one was.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn open_message_at(&self, agentable: AgentableId, seq: i64) -> Result<Option<MessageId>> {
        let row = sqlx::query!(
            r#"-- store::event::open_message_at
            select e.data as "data?: Json<Event>",
                   case when r.started_seq <= $2 then r.started_message_id end as started_message_id
              from (select * from houston.runs where agentable_id = $1 and first_seq <= $2
                     order by first_seq desc limit 1) r
              left join lateral (
                   select data from houston.events
                    where agentable_id = $1 and seq >= r.first_seq and seq <= $2
                      and data ->> 'type' in ('attempt_started', 'step_finished', 'retry_scheduled', 'run_waiting',
                                              'handed_over')
                    order by seq desc limit 1) e on true
             where r.last_seq is null or r.last_seq > $2"#,
            agentable.0,
            seq
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.and_then(|row| match row.data {
            Some(event) => next_message(&event.0).map(|(message, _)| message),
            None => row.started_message_id.map(MessageId),
        }))
    }
}

impl TenantStore<'_> {
    /// The iteration of an agentable of the tenant that was open at position `seq`, if one was: where a stream resumes.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn open_iteration_at(self, agentable: AgentableId, seq: i64) -> Result<Option<OpenIteration>> {
        let row = sqlx::query!(
            r#"-- store::event::open_iteration_at
            with run as (
                select * from houston.runs where tenant_id = $3 and agentable_id = $1 and first_seq <= $2
                 order by first_seq desc limit 1),
            begun as (
                (select e.seq, e.data, replace(e.data ->> 'next_message_id', 'msg_', '')::uuid as next_message
                   from run r join houston.events e on e.agentable_id = $1 and e.seq >= r.first_seq and e.seq <= $2
                  where e.data ->> 'type' in ('attempt_started', 'step_finished', 'retry_scheduled', 'run_waiting',
                                              'handed_over')
                  order by e.seq desc limit 1)
                union all
                (select r.started_seq, null, r.started_message_id from run r where r.started_seq <= $2)
                order by seq desc limit 1),
            sent as (
                select m.id from begun b join houston.messages m on m.agentable_id = $1 and m.seq > b.seq and m.seq <= $2
                 where m.source = 'agent' and m.message_type = 'text')
            select b.data as "data?: Json<Event>", b.next_message as "next_message?",
                   exists (select from sent) or exists (
                       select from houston.events e
                        where e.agentable_id = $1 and e.seq > b.seq and e.seq <= $2
                          and e.data ->> 'type' in ('thought', 'tool_called', 'message_sent')) as "thought!",
                   exists (select from sent s where s.id = b.next_message) as "said!"
              from begun b join run r on r.last_seq is null or r.last_seq > $2"#,
            agentable.0,
            seq,
            self.tenant.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.and_then(|row| {
            let begun = match row.data {
                Some(event) => event.0,
                None => of_first_attempt(MessageId(row.next_message?)),
            };
            let (message, number) = next_message(&begun)?;
            Some(OpenIteration {
                message,
                number,
                thought_committed: row.thought,
                message_committed: row.said,
            })
        }))
    }
}

/// A message as it is read for a stream.
#[derive(Debug)]
pub(crate) struct StreamMessage {
    id: MessageId,
    seq: i64,
    at: DateTime<Utc>,
    source: String,
    message_type: String,
    content: String,
    metadata: Value,
}

impl StreamMessage {
    /// A stored event that names it.
    fn named_by(self, event: Event, run_id: RunId) -> Committed {
        let body = body(&self.source, &self.message_type, self.content, self.metadata);
        Committed { seq: self.seq, run_id, at: self.at, event, body: Some(body) }
    }

    /// Its event, if that follows from it, in the stream of `run`.
    fn committed(self, run: RunId) -> Option<Committed> {
        let (seq, at) = (self.seq, self.at);
        let body = body(&self.source, &self.message_type, self.content, self.metadata);
        let event = of_message(body.source, body.message_type, self.id)?;
        Some(Committed { seq, run_id: run, at, event, body: Some(body) })
    }
}

/// The content of a message, for its event.
fn body(from: &str, kind: &str, content: String, metadata: Value) -> MessageBody {
    MessageBody {
        source: source(from),
        message_type: message_type(kind),
        content,
        metadata: stream_metadata(metadata),
    }
}

/// A run as it is read for a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamRun {
    id: Uuid,
    first_seq: i64,
    created_at: DateTime<Utc>,
    started_seq: Option<i64>,
    started_at: Option<DateTime<Utc>>,
    started_message_id: Option<Uuid>,
    last_seq: Option<i64>,
    ended_at: Option<DateTime<Utc>>,
    status: String,
    iterations: u32,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    /// As a decimal number, with its trailing zeros.
    last_cost: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
}

impl From<StreamRun> for RunRow {
    fn from(run: StreamRun) -> Self {
        let end = RunEnd {
            status: RunStatus::from_name(&run.status).unwrap_or(RunStatus::Failed),
            iterations: run.iterations,
            usage: Usage {
                input_tokens: run.input_tokens,
                output_tokens: run.output_tokens,
                cache_read_tokens: run.cache_read_tokens,
                cache_write_tokens: run.cache_write_tokens,
                reasoning_tokens: run.reasoning_tokens,
                cost: run.last_cost.and_then(|cost| cost.parse().ok()),
                long_cache_write_tokens: 0,
                billed: None,
                tier: None,
                apart: PricedApart::NOTHING,
            },
            error_code: run.error_code,
            error_message: run.error_message,
        };
        let first = run.started_seq.zip(run.started_at).zip(run.started_message_id);
        Self {
            queued: (run.first_seq, run.created_at),
            first_attempt: first.map(|((seq, at), message)| (seq, at, MessageId(message))),
            end: run.last_seq.zip(run.ended_at).map(|(seq, at)| (seq, at, end)),
        }
    }
}

/// Rows of a stretch of a stream.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Stored events, with their runs.
    events: Vec<Committed>,
    messages: Vec<StreamMessage>,
    /// The runs that the stretch is part of.
    runs: Vec<StreamRun>,
}

impl Stretch {
    /// The events at positions above `after`, up to `to`, in order.
    fn events(self, after: i64, to: i64) -> Vec<Committed> {
        let mut begins: Vec<(i64, RunId)> =
            self.runs.iter().map(|run| (run.first_seq, RunId(run.id))).collect();
        begins.sort_unstable_by_key(|(first_seq, _)| *first_seq);
        // Runs of an agentable never overlap.
        let run_at = |seq: i64| {
            let before = begins.partition_point(|(first_seq, _)| *first_seq <= seq);
            before.checked_sub(1).and_then(|nth| begins.get(nth)).map(|(_, run)| *run)
        };
        let mut events: BTreeMap<i64, Committed> = BTreeMap::new();
        for run in self.runs {
            let run_id = RunId(run.id);
            for (seq, at, event) in RunRow::from(run).events() {
                events.insert(seq, Committed { seq, run_id, at, event, body: None });
            }
        }
        let of_messages = self.messages.into_iter().filter_map(|message| {
            let run = run_at(message.seq)?;
            message.committed(run)
        });
        // A stored event takes precedence over one that follows.
        for event in of_messages.chain(self.events) {
            events.insert(event.seq, event);
        }
        events.into_values().filter(|event| event.seq > after && event.seq <= to).collect()
    }
}

/// The id reserved for the message of the iteration that begins with the event, and the iteration's number; `None` if
/// none begins.
fn next_message(event: &Event) -> Option<(MessageId, u32)> {
    match event {
        Event::AttemptStarted { next_message_id, iteration, .. } => Some((*next_message_id, *iteration)),
        Event::StepFinished { next_message_id, iteration } => Some((*next_message_id, iteration + 1)),
        _ => None,
    }
}
