//! Many posts in one commit.
//!
//! A post opens a run or joins the one that is open; both are prepared before the row is locked, and the statement
//! takes the one that fits. It waits for no lock. What it does not write the caller posts by itself: a post under an
//! idempotency key that was used before, one that is refused, one that cancels the open run.
//!
//! A batch has posts of several tenants, so it is not under [`row_security`](crate::row_security): each post names its tenant,
//! and the statement finds the row of its agentable by both.

use chrono::{DateTime, Utc};
use houston_domain::agentable::DoubleTexting;
use houston_domain::event::Committed;
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use houston_domain::message::Source;
use houston_domain::unread::Unread;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{NewPost, Posted};
use crate::batcher::Batch;
use crate::error::Result;
use crate::handle::Shared;
use crate::idempotency::{IdempotencyKey, bytea};

/// A post of a batch, as its rows.
#[derive(Debug, Serialize)]
pub(crate) struct PostRow {
    /// Index of the post in its batch.
    n: usize,
    tenant_id: Uuid,
    agentable_id: Uuid,
    kind: Option<String>,
    message_id: Uuid,
    run_id: Uuid,
    content: String,
    metadata: Box<RawValue>,
    key: Option<String>,
    /// As Postgres writes a `bytea`.
    request_sha256: Option<String>,
    /// Whether it may join a run that is open.
    joins: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

impl PostRow {
    pub(crate) fn of(
        tenant: TenantId,
        agentable: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            n: 0,
            tenant_id: tenant.0,
            agentable_id: agentable.0,
            kind: post.kind.map(str::to_owned),
            message_id: post.id.0,
            run_id: post.run.0,
            content: post.content.to_owned(),
            metadata: to_raw_value(post.metadata)?,
            key: key.map(|key| key.key.to_owned()),
            request_sha256: key.map(|key| bytea(key.request_sha256)),
            joins: post.double_texting == DoubleTexting::Enqueue,
            traceparent: post.traceparent.map(str::to_owned),
        })
    }

    /// The same, when it was decided that it is stored.
    pub(super) fn decided(self) -> Self {
        Self { kind: None, joins: true, ..self }
    }

    /// The bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.content.len() + self.metadata.get().len()
    }

    /// What a request with the same idempotency key shares with it.
    pub(crate) fn request_key(&self) -> Option<(Uuid, Option<String>)> {
        self.key.as_ref().map(|key| (self.tenant_id, Some(key.clone())))
    }

    pub(crate) fn tenant(&self) -> TenantId {
        TenantId(self.tenant_id)
    }

    /// The kind that the agentable must have.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The run that it opens.
    pub(crate) fn run(&self) -> RunId {
        RunId(self.run_id)
    }

    /// Where its run belongs in a trace.
    pub(crate) fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The message before a run reads it.
    pub(crate) fn unread(&self, seq: i64) -> Unread {
        let content = self.content.clone();
        Unread { seq, source: Source::User, metadata_type: None, content, is_for_run: true }
    }

    /// The result of the post that opened a run at `at` and is at `seq`.
    pub(crate) fn opened(&self, seq: i64, created_at: DateTime<Utc>) -> Posted {
        Posted {
            id: MessageId(self.message_id),
            run: self.run(),
            answered_by: self.run(),
            seq,
            run_seq: seq - 1,
            opened: true,
            created_at,
            needs_hint: false,
            is_started: true,
        }
    }

    /// The events of the post; see [`Posted::events`].
    pub(crate) fn events(&self, posted: &Posted) -> Vec<Committed> {
        let metadata = serde_json::from_str(self.metadata.get()).unwrap_or_default();
        posted.events(&self.content, &metadata)
    }
}

/// The result of a committed post.
#[derive(Debug)]
pub(crate) struct Written {
    run: RunId,
    answered_by: RunId,
    seq: i64,
    run_seq: i64,
    opened: bool,
    created_at: DateTime<Utc>,
    needs_hint: bool,
}

impl Written {
    /// The stored message.
    pub(super) fn posted(self, id: MessageId) -> Posted {
        let Self { run, answered_by, seq, run_seq, opened, created_at, needs_hint } = self;
        Posted { id, run, answered_by, seq, run_seq, opened, created_at, needs_hint, is_started: false }
    }
}

impl Shared {
    /// Posts a message together with others; `None` if it was not posted, and may be posted by itself.
    pub(super) async fn post_in_batch(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> Option<Posted> {
        if self.is_unbatched {
            return None;
        }
        let written = self.batchers.posts.submit(PostRow::of(tenant, agentable, post, key).ok()?).await?;
        Some(written.posted(post.id))
    }
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
    type Item = PostRow;
    type Done = Written;
    type Key = (Uuid, Option<String>);

    fn keys(item: &PostRow) -> impl Iterator<Item = Self::Key> {
        [(item.agentable_id, None)].into_iter().chain(item.request_key())
    }

    fn bytes(item: &PostRow) -> usize {
        item.bytes()
    }

    async fn prepare(&self, connection: &mut PgConnection) -> Result<()> {
        write(connection, &mut [], self.max_running, self.max_pending).await.map(drop)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [PostRow],
    ) -> Result<Vec<Option<Written>>> {
        houston_faults::fault!("C21")?;
        let written = write(connection, items, self.max_running, self.max_pending).await?;
        houston_faults::fault!("C22")?;
        Ok(written)
    }
}

/// Writes the posts that nothing stands against, each whose locks are free.
pub(super) async fn write(
    connection: &mut PgConnection,
    items: &mut [PostRow],
    max_running: i32,
    max_pending: i32,
) -> Result<Vec<Option<Written>>> {
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
        Json(&*items) as Json<&[PostRow]>,
        max_running,
        i64::from(max_pending)
    )
    .fetch_all(connection)
    .await?;
    let mut written: Vec<Option<Written>> = items.iter().map(|_| None).collect();
    for row in rows {
        let Some(place) = usize::try_from(row.n).ok().and_then(|n| written.get_mut(n)) else { continue };
        *place = Some(Written {
            run: RunId(row.run_id),
            answered_by: RunId(row.run_id).answering(row.seq, row.cancel_seq),
            seq: row.seq,
            run_seq: row.run_seq,
            opened: row.opens,
            created_at: row.at,
            needs_hint: row.needs_hint,
        });
    }
    Ok(written)
}
