//! Thread messages: posting and reading them.

mod alone;
pub(crate) mod batch;

use chrono::{DateTime, Utc};
use houston_domain::agentable::DoubleTexting;
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use houston_domain::message::{Message, MessageStatus, MessageType, Source};
use houston_domain::unread::MovedMessages;
use serde_json::{Map, Value};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::Shared;
use crate::idempotency::{Created, IdempotencyKey};

/// A user's message to be posted, as in a request with the body
/// `{"content": "hi", "metadata": {"source": "ios"}, "double_texting": "interrupt"}`. The caller assigns the ids.
#[derive(Debug, Clone, Copy)]
pub struct NewPost<'a> {
    /// The message's id.
    pub id: MessageId,
    /// The id for the run it opens when none is open.
    pub run: RunId,
    /// The text.
    pub content: &'a str,
    /// The client's own data, a JSON object.
    pub metadata: &'a Value,
    /// What it does to a run that is open.
    pub double_texting: DoubleTexting,
    /// Whether a worker of this process may start its run in the same commit ([`direct_start`](crate::direct_start)).
    pub starts: bool,
    /// The kind that the agentable must have; `None`: any.
    pub kind: Option<&'a str>,
    /// Where the run that it opens belongs in a trace: a `traceparent`.
    pub traceparent: Option<&'a str>,
}

/// A stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// The message's id.
    pub id: MessageId,
    /// The run that is open now.
    pub run: RunId,
    /// The run that will answer it: that one, or the one that opens when it has ended, because it is being cancelled.
    pub answered_by: RunId,
    /// The position of its event.
    pub seq: i64,
    /// The position of that run's first event.
    pub run_seq: i64,
    /// Whether the message opened that run.
    pub opened: bool,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// Whether to send a hint. Not needed while a run is held, which reads the message itself, nor while the user
    /// is at [`Fairness::max_running`](crate::Fairness::max_running), since the end of a run wakes the next one.
    pub needs_hint: bool,
    /// Whether a worker of this process has started the run, and publishes these events.
    pub is_started: bool,
}

impl Posted {
    /// The events that were committed together with the message.
    #[must_use]
    pub fn events(&self, content: &str, metadata: &Value) -> Vec<Committed> {
        let committed =
            |seq, event, body| Committed { seq, run_id: self.run, at: self.created_at, event, body };
        let body = MessageBody {
            source: Source::User,
            message_type: MessageType::Text,
            content: content.to_owned(),
            metadata: if metadata == &Value::Object(Map::new()) { Value::Null } else { metadata.clone() },
        };
        let message = committed(self.seq, Event::MessagePosted { message_id: self.id }, Some(body));
        if self.opened {
            vec![committed(self.seq - 1, Event::RunQueued {}, None), message]
        } else {
            vec![message]
        }
    }
}

/// A message with its processing status.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadMessage {
    /// The message.
    pub message: Message,
    /// The agentable whose thread it is in.
    pub agentable: AgentableId,
    /// The kind of that agentable.
    pub kind: String,
    /// How far it has been processed; `None` unless a user wrote it.
    pub status: Option<MessageStatus>,
    /// When the run that read it ended.
    pub processed_at: Option<DateTime<Utc>>,
}

struct MessageRow {
    id: Uuid,
    agentable_id: Uuid,
    kind: String,
    seq: i64,
    source: String,
    message_type: String,
    content: String,
    metadata: Value,
    run_id: Uuid,
    created_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    status: Option<String>,
}

impl From<MessageRow> for ThreadMessage {
    fn from(m: MessageRow) -> Self {
        Self {
            message: Message {
                id: MessageId(m.id),
                seq: m.seq,
                source: source(&m.source),
                message_type: message_type(&m.message_type),
                content: m.content,
                metadata: m.metadata,
                run_id: Some(RunId(m.run_id)),
                created_at: m.created_at,
            },
            agentable: AgentableId(m.agentable_id),
            kind: m.kind,
            processed_at: m.ended_at.filter(|_| m.status.as_deref() != Some("pending")),
            status: status(m.status.as_deref()),
        }
    }
}

pub(crate) fn source(name: &str) -> Source {
    match name {
        "user" => Source::User,
        "error" => Source::Error,
        "system" => Source::System,
        _ => Source::Agent,
    }
}

pub(crate) fn message_type(name: &str) -> MessageType {
    if name == "tool" { MessageType::Tool } else { MessageType::Text }
}

fn status(name: Option<&str>) -> Option<MessageStatus> {
    Some(match name? {
        "pending" => MessageStatus::Pending,
        "processing" => MessageStatus::Processing,
        "answered" => MessageStatus::Answered,
        _ => MessageStatus::Failed,
    })
}

/// The run that a message has joined.
pub(crate) struct Joined {
    pub(crate) run: RunId,
    /// The position of its first event.
    run_seq: i64,
    /// See [`Posted::answered_by`].
    pub(crate) answered_by: RunId,
}

/// Whether a row with the same id exists. Callers assign ids, so it is the same post.
fn is_duplicate(error: &Error) -> bool {
    error.sqlstate().as_deref() == Some("23505")
}

/// The run that was open when the message at `seq` was posted. The message's own row may name a later run by now: a run that
/// ends without having read the message passes it on.
async fn joined(connection: impl PgExecutor<'_>, agentable: AgentableId, seq: i64) -> Result<Joined> {
    let run = sqlx::query!(
        "-- store::message::posted_into
        select id, first_seq, cancel_seq from houston.runs
         where agentable_id = $1 and first_seq <= $2 order by first_seq desc limit 1",
        agentable.0,
        seq
    )
    .fetch_one(connection)
    .await?;
    let answered_by = RunId(run.id).answering(seq, run.cancel_seq);
    Ok(Joined { run: RunId(run.id), run_seq: run.first_seq, answered_by })
}

impl Shared {
    /// Stores a user's message, its event and, if none is open, its run: one transaction, mostly one round
    /// trip. If the message cancels the open run (`interrupt`, `rollback`), all workers are notified, and the next run
    /// opens when that one has ended.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable of this kind, [`Error::RunInProgress`] when `double_texting` is
    /// `reject` and a run is open, [`Error::TooManyPending`] when the user has too many unread messages,
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement. A repeated request that was
    /// accepted before gets its first answer even then.
    pub(crate) async fn post_message(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        if let Some(posted) = self.post_and_start(tenant, agentable, post, key).await {
            return Ok(Created::New(posted));
        }
        if let Some(posted) = self.post_in_batch(tenant, agentable, post, key).await {
            return Ok(Created::New(posted));
        }
        if let Some(kind) = post.kind {
            self.tenant(tenant).agentable(kind, agentable).await?;
        }
        let mut tx = self.pool_of(Some(tenant)).begin().await?;
        match self.post_alone(&mut tx, tenant, agentable, post, key).await {
            Ok(Created::New(posted)) => {
                tx.commit().await?;
                Ok(Created::New(posted))
            }
            // A transaction that is dropped keeps its locks until the pool rolls it back.
            Ok(before) => tx.rollback().await.map(|()| before).map_err(Error::from),
            Err(error) => {
                let _ = tx.rollback().await;
                if is_duplicate(&error) { self.posted_before(tenant, post).await } else { Err(error) }
            }
        }
    }

    /// The result of a post whose batch was committed, although its outcome was unknown.
    async fn posted_before(&self, tenant: TenantId, post: &NewPost<'_>) -> Result<Created<Posted>> {
        let ThreadMessage { message, agentable, .. } = self.message(tenant, post.id).await?;
        let Joined { run, run_seq, answered_by } =
            joined(&self.pool_of(Some(tenant)), agentable, message.seq).await?;
        Ok(Created::New(Posted {
            id: post.id,
            run,
            answered_by,
            seq: message.seq,
            run_seq,
            opened: run == post.run,
            created_at: message.created_at,
            needs_hint: true,
            is_started: false,
        }))
    }

    /// Reads a message of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such message, [`Error::Database`] when Postgres cannot be reached
    /// or refuses the statement.
    pub(crate) async fn message(&self, tenant: TenantId, id: MessageId) -> Result<ThreadMessage> {
        let m = sqlx::query_as!(
            MessageRow,
            r#"-- store::message::get
            select m.id, m.agentable_id, a.kind, m.seq, m.source, m.message_type, m.content, m.metadata, m.run_id,
                   m.created_at, r.ended_at,
                   case when m.source <> 'user' then null
                        when m.seq > l.read_seq then 'pending'
                        when r.ended_at is null then 'processing'
                        when r.status in ('cancelled', 'failed', 'dead_lettered') then 'failed'
                        else 'answered' end as status
              from houston.messages m
              join houston.agentables a on a.id = m.agentable_id
              join houston.run_locks l on l.agentable_id = m.agentable_id
              join houston.runs r on r.id = m.run_id
             where m.tenant_id = $1 and m.id = $2"#,
            tenant.0,
            id.0
        )
        .fetch_optional(&self.pool_of(Some(tenant)))
        .await?
        .ok_or(Error::NotFound { what: "message" })?;
        Ok(m.into())
    }

    /// Messages of an agentable of the tenant, newest first, with a position below `before` if given, at most
    /// `limit`.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub(crate) async fn messages(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<ThreadMessage>> {
        let rows = sqlx::query_as!(
            MessageRow,
            r#"-- store::message::list
            select m.id, m.agentable_id, a.kind, m.seq, m.source, m.message_type, m.content, m.metadata, m.run_id,
                   m.created_at, r.ended_at,
                   case when m.source <> 'user' then null
                        when m.seq > l.read_seq then 'pending'
                        when r.ended_at is null then 'processing'
                        when r.status in ('cancelled', 'failed', 'dead_lettered') then 'failed'
                        else 'answered' end as status
              from houston.messages m
              join houston.agentables a on a.id = m.agentable_id
              join houston.run_locks l on l.agentable_id = m.agentable_id
              join houston.runs r on r.id = m.run_id
             where m.tenant_id = $1 and m.agentable_id = $2 and m.seq < $3
             order by m.seq desc limit $4"#,
            tenant.0,
            agentable.0,
            before.unwrap_or(i64::MAX),
            limit
        )
        .fetch_all(&self.pool_of(Some(tenant)))
        .await?;
        Ok(rows.into_iter().map(ThreadMessage::from).collect())
    }
}

/// Assigns messages to the run that they belong to from now on.
pub(crate) async fn move_messages(
    connection: &mut PgConnection,
    agentable: AgentableId,
    MovedMessages { after, to, run }: &MovedMessages,
) -> Result<()> {
    sqlx::query!(
        "-- store::message::move_messages
        update houston.messages set run_id = $4
         where agentable_id = $1 and houston.is_for_agent(source) and seq > $2 and seq <= $3 and run_id <> $4",
        agentable.0,
        after,
        to,
        run.0
    )
    .execute(connection)
    .await?;
    Ok(())
}
