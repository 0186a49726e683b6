//! What one request creates, all or nothing: a user, an agentable, its first message.
//!
//! Many are made in one commit. The statement creates what nothing prevents: the user exists, or is new and in this cell; the idempotency key was not used before; the
//! user has room for another message. The caller tries what it leaves out by itself, and so learns the reason.
//!
//! A batch has creations of several tenants, so it is not under [`row_security`](crate::row_security): each names its tenant.

use houston_domain::id::{TenantId, UserId, shard};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::agentable::NewAgentable;
use crate::batcher::Batch;
use crate::error::{Error, Result, not_json};
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey, Once, bytea, earlier};
use crate::message::NewPost;
use crate::row_security::TenantTransaction;
use crate::serving::ServedBy;
use crate::user::{User, with_external_id};

/// What a request creates: at least a user or an agentable.
#[derive(Debug, Clone, Copy, Default)]
pub struct Creation<'a> {
    /// A new user; `None`: the agentable is for a user that exists.
    pub user: Option<NewUser<'a>>,
    /// An agentable.
    pub agentable: Option<&'a NewAgentable<'a>>,
    /// The agent or team that answers for it.
    pub served_by: ServedBy,
    /// The first message to it, which opens its first run.
    pub message: Option<&'a NewPost>,
}

/// A user to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewUser<'a> {
    /// The user.
    pub user: &'a User,
    /// The agentables that belong to every user, one of each kind.
    pub own: &'a [NewAgentable<'a>],
}

impl Creation<'_> {
    /// What the request creates first of all, under which its idempotency key is stored.
    fn resource(&self, owner: UserId) -> Uuid {
        self.agentable.map_or(owner.0, |agentable| agentable.id.0)
    }

    /// The user for whom it is; `None` if nothing is created.
    fn owner(&self) -> Option<UserId> {
        self.user.map(|new| new.user.id).or(self.agentable.map(|agentable| agentable.user))
    }
}

impl TenantStore<'_> {
    /// Creates a user, an agentable and its first message, in one transaction.
    ///
    /// # Errors
    /// [`Error::Exists`] when the tenant has a user with this `external_id`; [`Error::Moved`] when a new user belongs
    /// into another cell; [`Error::NotFound`] when the tenant has no such user, agent or team;
    /// [`Error::TooManyPending`] when the user has too many unread messages.
    pub async fn create(self, creation: &Creation<'_>, (key, response): Once<'_>) -> Result<Created<Value>> {
        let Some(owner) = creation.owner() else { return Ok(Created::New(response.clone())) };
        if !self.is_unbatched {
            let row = CreationRow::of(self.tenant, owner, creation, key.map(|key| (key, response)))?;
            if self.batchers.creations.submit(row).await.is_some() {
                return Ok(Created::New(response.clone()));
            }
        }
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, creation.resource(owner), response).await? {
            return Ok(earlier);
        }
        if let Some(tx) = self.created_within(tx, owner, creation).await? {
            tx.commit().await?;
        }
        Ok(Created::New(response.clone()))
    }

    /// Creates it within a transaction, which is returned to be committed; `None`: a batch has created it before.
    ///
    /// # Errors
    /// As [`Self::create`]; then nothing is created.
    pub(crate) async fn created_within(
        self,
        mut tx: TenantTransaction,
        owner: UserId,
        creation: &Creation<'_>,
    ) -> Result<Option<TenantTransaction>> {
        let mut row = [CreationRow::of(self.tenant, owner, creation, None)?];
        let creations = Creations { max_pending: self.fairness.pending() };
        match creations.create(&mut tx, &mut row).await {
            Ok(created) if created == [0] => return Ok(Some(tx)),
            Ok(_) => {}
            Err(error) => return refused(error).map(|()| None),
        }
        if let Some(NewUser { user, .. }) = creation.user {
            if !has_shard(&mut tx, owner).await? {
                return Err(Error::Moved);
            }
            let existing = with_external_id(&mut tx, self.tenant, user.external_id.as_deref()).await?;
            return Err(Error::Exists { what: "user", existing: existing.map(|id| UserId(id).to_string()) });
        }
        drop(tx);
        self.user(owner).await?;
        let limit = self.fairness.max_pending;
        Err(Error::TooManyPending { pending: limit, limit })
    }
}

/// Whether a user's shard is in this cell, as far as the cell's moves say.
async fn has_shard(connection: &mut PgConnection, user: UserId) -> Result<bool> {
    let is_here = sqlx::query_scalar!(
        r#"-- store::creation::has_shard
        select coalesce((select h.is_here from houston.moved_shards h where $1 between h.first and h.last
                          order by h.version desc limit 1), true) as "is_here!""#,
        i32::from(shard(user).0)
    );
    Ok(is_here.fetch_one(connection).await?)
}

/// Explains the constraint that a creation violates. No error: callers assign ids, so what exists under them was created by
/// a batch whose outcome was unknown.
pub(crate) fn refused(error: Error) -> Result<()> {
    let constraint = error.constraint().unwrap_or_default();
    match error.sqlstate().as_deref() {
        Some("23505") if constraint.ends_with("_pkey") => Ok(()),
        Some("23505") => Err(Error::Exists { what: "user", existing: None }),
        Some("23503") if constraint.contains("user") => Err(Error::NotFound { what: "user" }),
        Some("23503") => Err(Error::NotFound { what: "agent or team" }),
        _ => Err(error),
    }
}

/// A creation as its rows.
#[derive(Debug, Serialize)]
pub(crate) struct CreationRow {
    /// Index of the creation in its batch.
    n: usize,
    tenant_id: Uuid,
    user_id: Uuid,
    resource_id: Uuid,
    new_user: Option<User>,
    /// [`AgentableRow`]s.
    agentables: Box<RawValue>,
    posts: bool,
    key: Option<String>,
    /// As Postgres writes a `bytea`.
    request_sha256: Option<String>,
    response: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct AgentableRow<'a> {
    #[serde(flatten)]
    agentable: &'a NewAgentable<'a>,
    made_with_user: bool,
    agent_id: Option<Uuid>,
    team_id: Option<Uuid>,
    message: Option<&'a NewPost>,
}

impl CreationRow {
    fn of(
        tenant: TenantId,
        owner: UserId,
        creation: &Creation<'_>,
        key: Option<(IdempotencyKey<'_>, &Value)>,
    ) -> Result<Self> {
        let own = creation.user.map_or(&[][..], |new| new.own);
        let row = |agentable, made_with_user| {
            let (agent_id, team_id, message) = (None, None, None);
            AgentableRow { agentable, made_with_user, agent_id, team_id, message }
        };
        let mut agentables: Vec<_> = own.iter().map(|own| row(own, true)).collect();
        if let Some(agentable) = creation.agentable {
            let ServedBy { agent, team } = creation.served_by;
            let (agent_id, team_id) = (agent.map(|agent| agent.0), team.map(|team| team.0));
            let message = creation.message;
            agentables.push(AgentableRow { agent_id, team_id, message, ..row(agentable, false) });
        }
        let response = key.map(|(_, response)| to_raw_value(response)).transpose();
        Ok(Self {
            n: 0,
            tenant_id: tenant.0,
            user_id: owner.0,
            resource_id: creation.resource(owner),
            new_user: creation.user.map(|new| new.user.clone()),
            agentables: to_raw_value(&agentables).map_err(not_json)?,
            posts: creation.message.is_some(),
            key: key.map(|(key, _)| key.key.to_owned()),
            request_sha256: key.map(|(key, _)| bytea(key.request_sha256)),
            response: response.map_err(not_json)?,
        })
    }
}

/// How creations are written: see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Creations {
    /// See [`Fairness::max_pending`](crate::Fairness::max_pending).
    pub(crate) max_pending: i32,
}

impl Batch for Creations {
    type Item = CreationRow;
    type Done = ();
    /// Tenant, and an idempotency key or an external id.
    type Key = (Uuid, bool, String);
    const CONNECTIONS: usize = 1;

    fn keys(item: &CreationRow) -> impl Iterator<Item = Self::Key> {
        let external_id = item.new_user.as_ref().and_then(|user| user.external_id.clone());
        let key = item.key.clone().map(|key| (item.tenant_id, true, key));
        key.into_iter().chain(external_id.map(|id| (item.tenant_id, false, id)))
    }

    fn bytes(item: &CreationRow) -> usize {
        item.agentables.get().len() + item.response.as_ref().map_or(0, |response| response.get().len())
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [CreationRow],
    ) -> Result<Vec<Option<()>>> {
        let mut done = vec![None; items.len()];
        for n in self.create(connection, items).await? {
            done[n] = Some(());
        }
        Ok(done)
    }
}

impl Creations {
    /// Writes the creations; returns the indices of those that nothing prevented.
    async fn create(&self, connection: &mut PgConnection, items: &mut [CreationRow]) -> Result<Vec<usize>> {
        items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
        let rows = sqlx::query_scalar!(
            r#"-- store::creation::batch::create
            with i as materialized (
                select * from jsonb_to_recordset($1) as i (
                    n integer, tenant_id uuid, user_id uuid, resource_id uuid, new_user jsonb, agentables jsonb, posts boolean, key text,
                    request_sha256 bytea, response jsonb)),
            p as materialized (
                select i.* from i
                 where case when i.new_user is null
                            then exists (select from houston.users u where u.id = i.user_id and u.tenant_id = i.tenant_id)
                            else not exists (select from houston.users u where u.tenant_id = i.tenant_id
                                                and u.external_id = i.new_user ->> 'external_id') end
                   -- The last move of the shard may have taken it away.
                   and (i.new_user is null
                        or coalesce((select h.is_here from houston.moved_shards h
                                      where ('x' || right(i.user_id::text, 4))::bit(16)::integer between h.first and h.last
                                      order by h.version desc limit 1), true))
                   and (not i.posts
                        or $2 > (select coalesce(sum(u.unread), 0)
                                   from (select o.unread from houston.run_locks o
                                          where o.user_id = i.user_id and o.wake limit $2) u))
                   and (i.key is null
                        or pg_try_advisory_xact_lock(3, hashtext(i.tenant_id::text || i.key))
                           and not exists (select from houston.idempotency_keys k
                                            where k.tenant_id = i.tenant_id and k.key = i.key))),
            t as materialized (select clock_timestamp() as at),
            a as materialized (
                select p.tenant_id, p.user_id, a.*
                  from p cross join lateral jsonb_to_recordset(p.agentables) as a (
                       id uuid, kind text, title text, description text, status text, made_with_user boolean,
                       created_at timestamptz, tools text[], agent_id uuid, team_id uuid, message jsonb)),
            m as materialized (
                select a.tenant_id, a.id as agentable_id, a.created_at, m.message_id as id, m.run_id, m.content,
                       m.metadata, m.traceparent
                  from a cross join lateral jsonb_to_record(a.message) as m (
                       message_id uuid, run_id uuid, content text, metadata jsonb, traceparent text)
                 where a.message <> 'null'),
            users as (
                insert into houston.users (id, tenant_id, external_id, name, time_zone, created_at)
                select p.user_id, p.tenant_id, u.external_id, u.name, u.time_zone, u.created_at
                  from p cross join lateral jsonb_to_record(p.new_user) as u (
                       external_id text, name text, time_zone text, created_at timestamptz)
                 where p.new_user is not null),
            feeds as (
                insert into houston.feeds (user_id, tenant_id)
                select p.user_id, p.tenant_id from p where p.new_user is not null),
            agentables as (
                insert into houston.agentables (id, tenant_id, user_id, kind, title, description, status, created_at,
                                                made_with_user, tools, agent_id, team_id)
                select a.id, a.tenant_id, a.user_id, a.kind, a.title, a.description, a.status, a.created_at,
                       a.made_with_user, a.tools, a.agent_id, a.team_id from a),
            locks as (
                insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, waiting_since, unread,
                                               run_id, run_open)
                select a.id, a.tenant_id, a.user_id, case when m.id is null then 0 else 2 end, m.id is not null, t.at,
                       (m.id is not null)::integer, m.run_id, m.id is not null
                  from a left join m on m.agentable_id = a.id cross join t),
            runs as (
                insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at, traceparent)
                select m.run_id, m.tenant_id, m.agentable_id, 1, m.created_at, m.traceparent from m),
            messages as (
                insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                              run_id, created_at)
                select m.id, m.tenant_id, m.agentable_id, 2, 'user', 'text', m.content, m.metadata, m.run_id, m.created_at
                  from m),
            keys as (
                insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id, response)
                select p.tenant_id, p.key, p.request_sha256, p.resource_id, p.response from p where p.key is not null)
            select p.n as "n!" from p"#,
            Json(&*items) as Json<&[CreationRow]>,
            i64::from(self.max_pending)
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().filter_map(|n| usize::try_from(n).ok()).filter(|n| *n < items.len()).collect())
    }
}
