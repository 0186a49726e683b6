//! Reading the durable event stream.

use chrono::{DateTime, Utc};
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::{AgentableId, MessageId, RunId};
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::event::batch::{Page, StreamRead};
use crate::handle::{ApiStore, RunStore, TenantStore};
use crate::message::{message_type, source};

pub(crate) mod batch;

/// The end of an agentable's event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHead {
    /// The position of the newest event.
    pub last_seq: i64,
    /// Whether a run is open.
    pub run_open: bool,
    /// The open run, or the latest one, and the position of its first event.
    pub run: Option<(RunId, i64)>,
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

/// The message of an event, if it has one.
fn body(
    from: Option<String>,
    kind: Option<String>,
    content: Option<String>,
    metadata: Option<Value>,
) -> Option<MessageBody> {
    Some(MessageBody {
        source: source(&from?),
        message_type: message_type(&kind?),
        content: content?,
        metadata: stream_metadata(metadata.unwrap_or_default()),
    })
}

struct EventRow {
    seq: i64,
    run_id: Uuid,
    created_at: DateTime<Utc>,
    data: Json<Event>,
    source: Option<String>,
    message_type: Option<String>,
    content: Option<String>,
    metadata: Option<Value>,
}

impl From<EventRow> for Committed {
    fn from(row: EventRow) -> Self {
        let body = body(row.source, row.message_type, row.content, row.metadata);
        Self { seq: row.seq, run_id: RunId(row.run_id), at: row.created_at, event: row.data.0, body }
    }
}

impl TenantStore<'_> {
    /// Events of an agentable of the tenant after position `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement, [`Error::Inconsistent`] when an
    /// event cannot be decoded.
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
    /// most `limit`; without `after`, those of its open or latest run.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable of this kind, [`Error::Database`] when Postgres
    /// cannot be reached or refuses the statement, [`Error::Inconsistent`] when an event cannot be decoded.
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
        if let Some(page) = self.batchers.streams.submit(read.clone()).await {
            return page;
        }
        let mut connection = self.pool.acquire().await?;
        batch::read(&mut connection, &[read]).await?.pop().unwrap_or(Ok(None))
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
        let rows = sqlx::query_as!(
            EventRow,
            r#"-- store::event::thread_before
            select e.seq, e.run_id, e.created_at, e.data as "data: Json<Event>", m.source as "source?",
                   m.message_type as "message_type?", m.content as "content?", m.metadata as "metadata?"
              from houston.events e join houston.messages m on m.id = e.message_id
             where e.tenant_id = $4 and e.agentable_id = $1 and e.seq < $2
             order by e.seq desc limit $3"#,
            agentable.0,
            before,
            limit,
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(Committed::from).collect())
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
            select data as "data: Json<Event>" from houston.events
             where agentable_id = $1 and seq <= $2
               and data ->> 'type' in ('attempt_started', 'step_finished', 'run_finished', 'retry_scheduled',
                                       'handed_over')
             order by seq desc limit 1"#,
            agentable.0,
            seq
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.and_then(|row| match row.data.0 {
            Event::AttemptStarted { next_message_id, .. } | Event::StepFinished { next_message_id, .. } => {
                Some(next_message_id)
            }
            _ => None,
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
            with begun as (
                select seq, data from houston.events
                 where tenant_id = $3 and agentable_id = $1 and seq <= $2
                   and data ->> 'type' in ('attempt_started', 'step_finished', 'run_finished', 'retry_scheduled',
                                           'handed_over')
                 order by seq desc limit 1)
            select b.data as "data!: Json<Event>",
                   exists (select from houston.events e
                            where e.agentable_id = $1 and e.seq > b.seq and e.seq <= $2
                              and e.data ->> 'type' in ('thought', 'tool_called', 'message_sent')) as "thought!",
                   exists (select from houston.events e
                            where e.agentable_id = $1 and e.seq > b.seq and e.seq <= $2
                              and e.data ->> 'type' = 'message_sent'
                              and e.data ->> 'message_id' = b.data ->> 'next_message_id') as "said!"
              from begun b"#,
            agentable.0,
            seq,
            self.tenant.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.and_then(|row| {
            let (message, number) = match row.data.0 {
                Event::AttemptStarted { next_message_id, iteration, .. } => (next_message_id, iteration),
                Event::StepFinished { next_message_id, iteration } => (next_message_id, iteration + 1),
                _ => return None,
            };
            Some(OpenIteration {
                message,
                number,
                thought_committed: row.thought,
                message_committed: row.said,
            })
        }))
    }
}
