//! Thread messages: posting and reading them.
//!
//! Many posts are written in one commit. A post opens a run or joins the one that is open; both are prepared before the row is
//! locked, and the statement takes the one that fits. It waits for no lock. What it does not write the caller posts by itself: a
//! post under an idempotency key that was used before, one that is refused, one that cancels the open run. That is under the
//! locks of its key and its agentable, so that what is decided is still true when it is written.
//!
//! A batch has posts of several tenants, so it is not under [`row_security`](crate::row_security): each post names its tenant,
//! and the statement finds the row of its agentable by both.

use chrono::{DateTime, Utc};
use houston_domain::agentable::DoubleTexting;
use houston_domain::event::{Committed, Event, MessageBody};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
pub use houston_domain::message::Message;
use houston_domain::message::{MessageStatus, MessageType, Source, result_of};
use houston_domain::owner::Owner;
use houston_domain::post::{Decision, Recipient, Refusal, decide};
use houston_domain::time::Time;
use houston_domain::unread::{MovedMessages, Unread};
use serde::{Serialize, Serializer};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::batcher::Batch;
use crate::error::{Error, Result};
use crate::event::stream_metadata;
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey, bytea};
use crate::statement::Statement as _;

/// A user's message to be posted, as in a request with the body
/// `{"content": "hi", "metadata": {"source": "ios"}, "double_texting": "interrupt"}`. The caller assigns the ids. The
/// statements read it as JSON, with what the store adds: whose it is, and under which key.
#[derive(Debug, Clone, Serialize)]
pub struct NewPost {
    /// Index of the post in its batch.
    n: usize,
    pub(crate) tenant_id: Uuid,
    agentable_id: Uuid,
    /// The message's id.
    #[serde(rename = "message_id", serialize_with = "uuid")]
    pub id: MessageId,
    /// The id for the run it opens when none is open.
    #[serde(rename = "run_id", serialize_with = "uuid")]
    pub run: RunId,
    /// The text.
    pub content: String,
    /// The client's own data, a JSON object.
    pub metadata: Value,
    /// What it does to a run that is open.
    #[serde(rename = "joins", serialize_with = "joins")]
    pub double_texting: DoubleTexting,
    /// Whether a worker of this process may start its run in the same commit ([`direct_start`](crate::direct_start)).
    #[serde(skip)]
    pub starts: bool,
    /// The kind that the agentable must have; `None`: any.
    pub kind: Option<String>,
    /// Where the run that it opens belongs in a trace: a `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    key: Option<String>,
    /// As Postgres writes a `bytea`.
    request_sha256: Option<String>,
}

/// Writes an id as Postgres reads it.
pub(crate) fn uuid<T: Copy + Into<Uuid>, S: Serializer>(
    id: &T,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    (*id).into().serialize(serializer)
}

/// Whether it may join a run that is open.
fn joins<S: Serializer>(of: &DoubleTexting, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    (*of == DoubleTexting::Enqueue).serialize(serializer)
}

impl NewPost {
    /// The position of the event of the first message to an agentable. The event before it is that of its run.
    pub const FIRST_SEQ: i64 = 2;

    /// A message that joins the open run, if there is one, of an agentable of any kind.
    pub fn new(id: MessageId, run: RunId, content: impl Into<String>, metadata: Value) -> Self {
        Self {
            n: 0,
            tenant_id: Uuid::nil(),
            agentable_id: Uuid::nil(),
            id,
            run,
            content: content.into(),
            metadata,
            double_texting: DoubleTexting::Enqueue,
            starts: false,
            kind: None,
            traceparent: None,
            key: None,
            request_sha256: None,
        }
    }

    /// The same, as the statements read it.
    pub(crate) fn of(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        key: Option<IdempotencyKey<'_>>,
    ) -> Self {
        Self {
            tenant_id: tenant.0,
            agentable_id: agentable.0,
            key: key.map(|key| key.key.to_owned()),
            request_sha256: key.map(|key| bytea(key.request_sha256)),
            ..self.clone()
        }
    }

    /// What a request with the same idempotency key shares with it.
    pub(crate) fn request_key(&self) -> Option<(Uuid, Option<String>)> {
        self.key.as_ref().map(|key| (self.tenant_id, Some(key.clone())))
    }

    /// The message before a run reads it.
    pub(crate) fn unread(&self, seq: i64) -> Unread {
        let content = self.content.clone();
        Unread { seq, source: Source::User, metadata_type: None, content, is_for_run: true }
    }

    /// The result of the post, which opened its run at `created_at` and is at `seq`.
    pub fn opened(&self, seq: i64, created_at: DateTime<Utc>) -> Posted {
        Posted {
            id: self.id,
            run: self.run,
            answered_by: self.run,
            seq,
            run_seq: seq - 1,
            opened: true,
            created_at,
            needs_hint: true,
            is_started: false,
        }
    }

    /// The events that were committed together with the message.
    pub fn events(&self, posted: &Posted) -> Vec<Committed> {
        let committed =
            |seq, event, body| Committed { seq, run_id: posted.run, at: posted.created_at, event, body };
        let body = MessageBody {
            source: Source::User,
            message_type: MessageType::Text,
            content: self.content.clone(),
            metadata: stream_metadata(self.metadata.clone()),
        };
        let message = committed(posted.seq, Event::MessagePosted { message_id: self.id }, Some(body));
        if posted.opened {
            vec![committed(posted.seq - 1, Event::RunQueued {}, None), message]
        } else {
            vec![message]
        }
    }
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

/// Reads messages `m`, between the name of the query and the conditions.
macro_rules! query_messages {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + "
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
             " + $after
            $(, $parameter)*
        )
        .map(|row| {
            let status = row.status.as_deref().and_then(MessageStatus::from_name);
            Message {
                id: MessageId(row.id),
                owner: Owner { kind: row.kind, id: AgentableId(row.agentable_id) },
                source: source(&row.source),
                message_type: message_type(&row.message_type),
                result: result_of(&row.metadata, &row.content),
                content: row.content,
                metadata: row.metadata,
                processed_at: row.ended_at.filter(|_| status != Some(MessageStatus::Pending)).map(Time),
                status,
                run_id: Some(RunId(row.run_id)),
                seq: row.seq,
                created_at: Time(row.created_at),
            }
        })
    };
}

pub(crate) fn source(name: &str) -> Source {
    Source::from_name(name).unwrap_or(Source::Agent)
}

pub(crate) fn message_type(name: &str) -> MessageType {
    MessageType::from_name(name).unwrap_or(MessageType::Text)
}

/// The result of the message at `seq`, which was posted before. Its run is the one that was open then. The message's own row may
/// name a later run by now: a run that ends without having read the message passes it on.
async fn posted_before(
    connection: impl PgExecutor<'_>,
    agentable: AgentableId,
    id: MessageId,
    seq: i64,
    created_at: DateTime<Utc>,
) -> Result<Posted> {
    let run = sqlx::query!(
        "-- store::message::posted_into
        select id, first_seq, cancel_seq from houston.runs
         where agentable_id = $1 and first_seq <= $2 order by first_seq desc limit 1",
        agentable.0,
        seq
    )
    .fetch_one(connection)
    .await?;
    Ok(Posted {
        id,
        run: RunId(run.id),
        answered_by: RunId(run.id).answering(seq, run.cancel_seq),
        seq,
        run_seq: run.first_seq,
        opened: false,
        created_at,
        needs_hint: false,
        is_started: false,
    })
}

impl TenantStore<'_> {
    /// Stores a user's message, its event and, if none is open, its run: one transaction, one round trip. If the
    /// message cancels the open run (`interrupt`, `rollback`), all workers are notified, and the next run opens
    /// when that one has ended.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable of this kind,
    /// [`Error::RunInProgress`] when `double_texting` is `reject` and a run is open,
    /// [`Error::TooManyPending`] when the user has too many unread messages,
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement. A
    /// repeated request that was accepted before gets its first answer even then.
    pub async fn post_message(
        self,
        agentable: AgentableId,
        post: &NewPost,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        if let Some(posted) = self.post_and_start(agentable, post, key).await {
            return Ok(Created::New(posted));
        }
        if !self.is_unbatched
            && let Some(posted) = self.batchers.posts.submit(post.of(self.tenant, agentable, key)).await
        {
            return Ok(Created::New(posted));
        }
        if let Some(kind) = &post.kind {
            self.agentable(kind, agentable).await?;
        }
        let mut tx = self.pool.begin().await?;
        match self.post_alone(&mut tx, agentable, post, key).await {
            Ok(Created::New(posted)) => {
                tx.commit().await?;
                Ok(Created::New(posted))
            }
            // A transaction that is dropped keeps its locks until the pool rolls it back.
            Ok(before) => tx.rollback().await.map(|()| before).map_err(Error::from),
            Err(error) => {
                let _ = tx.rollback().await;
                // There is a row with the same id, which is the same post, since callers assign ids: a batch was committed,
                // although its outcome was unknown.
                let is_duplicate = error.sqlstate().as_deref() == Some("23505");
                if is_duplicate { self.posted_already(post).await } else { Err(error) }
            }
        }
    }

    async fn posted_already(self, post: &NewPost) -> Result<Created<Posted>> {
        let Message { owner, id, seq, created_at, .. } = self.message(post.id).await?;
        let before = posted_before(&self.pool, owner.id, id, seq, created_at.0).await?;
        Ok(Created::New(Posted { opened: before.run == post.run, needs_hint: true, ..before }))
    }

    /// Posts a message by itself, in the caller's transaction. Nothing is written unless the result is [`Created::New`].
    ///
    /// # Errors
    /// Those of [`post_message`](Self::post_message).
    pub(crate) async fn post_alone(
        self,
        connection: &mut PgConnection,
        agentable: AgentableId,
        post: &NewPost,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        let tenant = self.tenant;
        if let Some(key) = key {
            lock_key(connection, tenant, key).await?;
            if let Some(before) = posted_under(connection, tenant, agentable, key).await? {
                return Ok(before);
            }
        }
        let limit = self.fairness.max_pending;
        let recipient = lock(connection, tenant, agentable, limit).await?;
        let cancelled = match decide(recipient, post.double_texting, i64::from(limit)) {
            Decision::Opens | Decision::Joins => None,
            Decision::Cancels(run) => Some(run),
            Decision::Refused(Refusal::NotFound) => return Err(Error::NotFound { what: "agentable" }),
            Decision::Refused(Refusal::RunOpen(run)) => return Err(Error::RunInProgress { run }),
            Decision::Refused(Refusal::TooManyUnread(pending)) => {
                let pending = u32::try_from(pending).unwrap_or(u32::MAX);
                return Err(Error::TooManyPending { pending, limit });
            }
        };
        // Decided above, so without a limit.
        let posts = Posts { max_running: self.fairness.running(), max_pending: i32::MAX };
        let decided =
            NewPost { kind: None, double_texting: DoubleTexting::Enqueue, ..post.of(tenant, agentable, key) };
        let Some(mut posted) = write(posts, connection, &mut [decided]).await?.pop().flatten() else {
            let Some(key) = key else { return Err(Error::NotFound { what: "agentable" }) };
            // Another request took the key without its lock.
            let before = posted_under(connection, tenant, agentable, key).await?;
            return before.ok_or(Error::NotFound { what: "agentable" });
        };
        if let Some(run) = cancelled {
            cancel(connection, tenant, (agentable, run), posted.seq - 1, post.double_texting).await?;
            posted.answered_by = run.answering(posted.seq, Some(posted.seq - 1));
        }
        Ok(Created::New(posted))
    }

    /// Reads a message of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such message.
    pub async fn message(self, id: MessageId) -> Result<Message> {
        let row = query_messages!(
            "-- store::message::get",
            "where m.tenant_id = $1 and m.id = $2",
            self.tenant.0,
            id.0
        );
        row.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "message" })
    }

    /// Messages of an agentable of the tenant, newest first, with a position below `before` if given, at most
    /// `limit`.
    pub async fn messages(
        self,
        agentable: AgentableId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Message>> {
        let rows = query_messages!(
            "-- store::message::list",
            "where m.tenant_id = $1 and m.agentable_id = $2 and m.seq < $3
             order by m.seq desc limit $4",
            self.tenant.0,
            agentable.0,
            before.unwrap_or(i64::MAX),
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// Waits for the key, which belongs to this transaction then. Batches leave out a request whose key another transaction has
/// locked; `houston.post_message` takes the same lock.
async fn lock_key(connection: &mut PgConnection, tenant: TenantId, key: IdempotencyKey<'_>) -> Result<()> {
    sqlx::query!(
        "-- store::message::alone::lock_key
        select pg_advisory_xact_lock(3, hashtext($1::uuid::text || $2::text))::text as locked",
        tenant.0,
        key.key
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}

/// What was posted under the key before.
async fn posted_under(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    key: IdempotencyKey<'_>,
) -> Result<Option<Created<Posted>>> {
    let used = sqlx::query!(
        r#"-- store::message::alone::posted_under
        select k.request_sha256 = $3 as "is_same!", m.id as "id?", m.agentable_id as "agentable_id?", m.seq as "seq?",
               m.created_at as "created_at?"
          from houston.idempotency_keys k left join houston.messages m on m.id = k.resource_id
         where k.tenant_id = $1 and k.key = $2"#,
        tenant.0,
        key.key,
        key.request_sha256
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(used) = used else { return Ok(None) };
    let is_same = used.is_same && used.agentable_id == Some(agentable.0);
    let message = used.id.zip(used.seq).zip(used.created_at).filter(|_| is_same);
    let Some(((id, seq), created_at)) = message else { return Ok(Some(Created::KeyReused)) };
    let posted = posted_before(connection, agentable, MessageId(id), seq, created_at).await?;
    Ok(Some(Created::Replayed(posted)))
}

/// Locks the agentable and reads what the decision needs; unread messages are counted up to the limit. Of a row that was waited
/// for, this is its latest version.
async fn lock(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    limit: u32,
) -> Result<Option<Recipient>> {
    let row = sqlx::query!(
        r#"-- store::message::alone::lock
        select case when k.run_open then k.run_id end as open_run,
               (select coalesce(sum(u.unread), 0)
                  from (select o.unread from houston.run_locks o where o.user_id = k.user_id and o.wake limit $3) u)
                    as "unread!"
          from houston.run_locks k where k.agentable_id = $1 and k.tenant_id = $2 for no key update"#,
        agentable.0,
        tenant.0,
        i64::from(limit)
    )
    .map(|row| Recipient { open_run: row.open_run.map(RunId), unread: row.unread });
    Ok(row.fetch_optional(connection).await?)
}

/// Requests to cancel the open run of an agentable, because of the message after `seq`. All workers are notified.
async fn cancel(
    connection: &mut PgConnection,
    tenant: TenantId,
    (agentable, run): (AgentableId, RunId),
    seq: i64,
    double_texting: DoubleTexting,
) -> Result<()> {
    sqlx::query!(
        "-- store::message::alone::cancel
        with runs as (
            -- The reason of the first request stays, unless this one rolls the run back.
            update houston.runs r
               set cancel_seq = $4,
                   cancel_reason = case when $5 = 'rollback' or r.cancel_seq is null then $5 else r.cancel_reason end
             where r.id = $3 and r.tenant_id = $1),
        locks as (update houston.run_locks set next_attempt_at = null where agentable_id = $2 and tenant_id = $1)
        select pg_notify('houston', format('1 cancel %s %s', $2::uuid, $3::uuid))::text as notified",
        tenant.0,
        agentable.0,
        run.0,
        seq,
        double_texting.as_str()
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}

/// How posts are written: see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posts {
    /// See [`Fairness::max_running`](crate::Fairness::max_running).
    pub(crate) max_running: i32,
    /// See [`Fairness::max_pending`](crate::Fairness::max_pending).
    pub(crate) max_pending: i32,
}

impl Batch for Posts {
    type Item = NewPost;
    type Done = Posted;
    type Key = (Uuid, Option<String>);

    fn keys(item: &NewPost) -> impl Iterator<Item = Self::Key> {
        [(item.agentable_id, None)].into_iter().chain(item.request_key())
    }

    /// Those of its text: its metadata has at most 16 KiB.
    fn bytes(item: &NewPost) -> usize {
        item.content.len()
    }

    async fn prepare(&self, connection: &mut PgConnection) -> Result<()> {
        write(*self, connection, &mut []).await.map(drop)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [NewPost],
    ) -> Result<Vec<Option<Posted>>> {
        houston_faults::fault!("C21")?;
        let posted = write(*self, connection, items).await?;
        houston_faults::fault!("C22")?;
        Ok(posted)
    }
}

/// Writes the posts that nothing stands against, each whose locks are free.
async fn write(
    Posts { max_running, max_pending }: Posts,
    connection: &mut PgConnection,
    items: &mut [NewPost],
) -> Result<Vec<Option<Posted>>> {
    items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
    let rows = sqlx::query!(
        r#"-- store::message::batch::post
        with i as materialized (
            select * from jsonb_to_recordset($1) as i (
                n integer, tenant_id uuid, agentable_id uuid, kind text, message_id uuid, run_id uuid, content text,
                metadata jsonb, key text, request_sha256 bytea, joins boolean, traceparent text)),
        l as materialized (
            select i.n, i.tenant_id, i.agentable_id, i.message_id, i.content, i.metadata, i.key, i.request_sha256,
                   i.traceparent, k.user_id, not k.run_open as opens, k.holder is null as is_free,
                   case when k.run_open then k.run_id else i.run_id end as run_id,
                   k.last_seq + case when k.run_open then 1 else 2 end as seq
              -- A lateral query, so that each row is found by its key whatever the statistics say.
              from i cross join lateral (
                   select k.* from houston.run_locks k
                    where k.agentable_id = i.agentable_id and k.tenant_id = i.tenant_id
                      and (i.joins or not k.run_open)
                      and (i.key is null or pg_try_advisory_xact_lock(3, hashtext(i.tenant_id::text || i.key)))
                      -- A scalar query, so that the row is found by its id and not by its kind.
                      and (i.kind is null
                           or i.kind = (select a.kind from houston.agentables a where a.id = k.agentable_id))
                      and $3 > (select coalesce(sum(u.unread), 0)
                                  from (select o.unread from houston.run_locks o
                                         where o.user_id = k.user_id and o.wake limit $3) u)
                      for no key update skip locked) k),
        keys as (
            insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
            select l.tenant_id, l.key, l.request_sha256, l.message_id from l where l.key is not null order by l.key
            on conflict do nothing returning tenant_id, key),
        p as materialized (
            select l.* from l
             where l.key is null
                or exists (select from keys k where k.tenant_id = l.tenant_id and k.key = l.key)),
        t as materialized (select clock_timestamp() as at),
        locks as (
            update houston.run_locks k
               set last_seq = p.seq, waiting_since = case when k.wake then k.waiting_since else t.at end,
                   wake = true, unread = k.unread + 1, run_id = p.run_id, run_open = true,
                   failed_attempts = case when p.opens then 0 else k.failed_attempts end,
                   crash_count = case when p.opens then 0 else k.crash_count end,
                   next_attempt_at = case when not p.opens and k.wake then k.next_attempt_at end
              from p cross join t where k.agentable_id = p.agentable_id),
        runs as (
            insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at, traceparent)
            select p.run_id, p.tenant_id, p.agentable_id, p.seq - 1, t.at, p.traceparent
              from p cross join t where p.opens),
        messages as (
            insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                          run_id, created_at)
            select p.message_id, p.tenant_id, p.agentable_id, p.seq, 'user', 'text', p.content, p.metadata, p.run_id,
                   t.at
              from p cross join t)
        select p.n as "n!", p.run_id as "run_id!", p.seq as "seq!", p.opens as "opens!", t.at as "at!",
               coalesce(r.first_seq, p.seq - 1) as "run_seq!", r.cancel_seq as "cancel_seq?",
               p.is_free and houston.free_slots(p.user_id, p.agentable_id, $2) > 0 as "needs_hint!"
          from p cross join t
          left join lateral (select r.first_seq, r.cancel_seq from houston.runs r
                              where not p.opens and r.id = p.run_id) r on true"#,
        Json(&*items) as Json<&[NewPost]>,
        max_running,
        i64::from(max_pending)
    )
    .fetch_all(connection)
    .await?;
    let mut posted = vec![None; items.len()];
    for row in rows {
        let place = usize::try_from(row.n).ok();
        let Some((place, item)) = place.and_then(|n| posted.get_mut(n).zip(items.get(n))) else { continue };
        *place = Some(Posted {
            run: RunId(row.run_id),
            answered_by: RunId(row.run_id).answering(row.seq, row.cancel_seq),
            run_seq: row.run_seq,
            opened: row.opens,
            needs_hint: row.needs_hint,
            ..item.opened(row.seq, row.at)
        });
    }
    Ok(posted)
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
    .run(connection)
    .await
}
