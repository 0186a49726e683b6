//! Threads of clients: which agentable a client of another protocol means by its own thread id.
//!
//! The same tenant, user, target and thread id always find the same agentable: the first request creates it, and of several
//! at once one does. A thread whose agentable was erased is free again.

use houston_domain::id::{AgentId, AgentableId, RunId, UserId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::creation::Creation;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::with_connection;

/// The user whom a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadUser<'a> {
    /// By Houston's id.
    Id(UserId),
    /// By the client's own id.
    External(&'a str),
}

/// Which conversation a client means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientThread<'a> {
    /// The user whose conversation it is.
    pub user: ThreadUser<'a>,
    /// Who answers.
    pub target: ThreadTarget<'a>,
    /// What the client calls it.
    pub thread: &'a str,
}

/// Who answers in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadTarget<'a> {
    /// The default agent of a kind.
    Kind(&'a str),
    /// An agent, by its name.
    AgentNamed(&'a str),
    /// An agent, by its id.
    Agent(AgentId),
}

/// What there is of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundThread {
    /// The user, if the tenant has this one.
    pub user: Option<UserId>,
    /// The agent, if one was asked for and exists.
    pub agent: Option<ThreadAgent>,
    /// The agentable of the thread, and its kind.
    pub agentable: Option<(AgentableId, String)>,
}

/// An agent that answers in threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadAgent {
    /// The id of the agent.
    pub id: AgentId,
    /// The kind it is for.
    pub kind: String,
    /// Whether it may answer.
    pub enabled: bool,
}

impl TenantStore<'_> {
    /// What there is of a thread, in one query.
    pub async fn client_thread(self, of: &ClientThread<'_>) -> Result<FoundThread> {
        let (user, external_id) = match of.user {
            ThreadUser::Id(id) => (Some(id.0), None),
            ThreadUser::External(id) => (None, Some(id)),
        };
        let (kind, name, agent) = match of.target {
            ThreadTarget::Kind(kind) => (Some(kind), None, None),
            ThreadTarget::AgentNamed(name) => (None, Some(name), None),
            ThreadTarget::Agent(id) => (None, None, Some(id.0)),
        };
        let row = sqlx::query!(
            r#"-- store::client_thread::find
            select u.id as "user?", g.id as "agent?", g.kind as "agent_kind?", g.enabled as "enabled?", a.id as "agentable?",
                   a.kind as "kind?"
              from (values (true)) v
              left join lateral (
                    select id from houston.users where tenant_id = $1 and id = $2
                    union all
                    select id from houston.users where tenant_id = $1 and external_id = $3) u on true
              left join lateral (
                    select id, kind, enabled from houston.agents where tenant_id = $1 and name = $5
                    union all
                    select id, kind, enabled from houston.agents where tenant_id = $1 and id = $6) g on true
              left join houston.client_threads t on t.tenant_id = $1 and t.user_id = u.id
                    and t.target = coalesce($4, g.id::text) and t.thread = $7
              left join houston.agentables a on a.tenant_id = $1 and a.id = t.agentable_id"#,
            self.tenant.0,
            user,
            external_id,
            kind,
            name,
            agent,
            of.thread
        )
        .fetch_one(&self.pool)
        .await?;
        let agent = row.agent.zip(row.agent_kind).map(|(id, kind)| ThreadAgent {
            id: AgentId(id),
            kind,
            enabled: row.enabled == Some(true),
        });
        Ok(FoundThread {
            user: row.user.map(UserId),
            agent,
            agentable: row.agentable.map(AgentableId).zip(row.kind),
        })
    }

    /// Creates the agentable of a thread, with its user if the creation has one; the target is a kind or the id of an agent.
    /// Returns `false`, with no change, if another request has created it meanwhile.
    pub async fn create_client_thread(
        self,
        creation: &Creation<'_>,
        target: &str,
        thread: &str,
    ) -> Result<bool> {
        let Some(agentable) = creation.agentable else { return Ok(false) };
        let tx = self.pool.begin().await?;
        let Some(mut tx) = self.created_within(tx, agentable.user, creation).await? else { return Ok(false) };
        let is_first =
            self.put_client_thread(&mut tx, agentable.user, (target, thread), agentable.id).await?;
        if is_first {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        Ok(is_first)
    }

    /// Lets a thread be that of the agentable of this kind that was created with its user. Returns the agentable.
    pub async fn own_client_thread(
        self,
        user: UserId,
        kind: &str,
        (target, thread): (&str, &str),
    ) -> Result<AgentableId> {
        let own = self.own_agentables_of(&[user]).await?;
        let own = own.into_iter().find(|own| own.kind == kind).map(|own| own.id);
        let own = own.ok_or(Error::NotFound { what: "agentable" })?;
        with_connection!(self.pool, |c| self.put_client_thread(c, user, (target, thread), own));
        Ok(own)
    }

    /// Whether the thread is that of `agentable` now, and was of none that still exists before.
    async fn put_client_thread(
        self,
        connection: &mut PgConnection,
        user: UserId,
        (target, thread): (&str, &str),
        agentable: AgentableId,
    ) -> Result<bool> {
        let done = sqlx::query!(
            "-- store::client_thread::put
            insert into houston.client_threads as t (user_id, target, thread, agentable_id, tenant_id)
            values ($2, $3, $4, $5, $1)
            on conflict (user_id, target, thread) do update set agentable_id = excluded.agentable_id
             where t.tenant_id = $1
               and not exists (select from houston.agentables a where a.tenant_id = $1 and a.id = t.agentable_id)",
            self.tenant.0,
            user.0,
            target,
            thread,
            agentable.0
        );
        Ok(done.execute(connection).await?.rows_affected() == 1)
    }

    /// The first name that a client has given the thread of an agentable, if one has.
    pub async fn client_name_of_thread(self, agentable: AgentableId) -> Result<Option<String>> {
        let name = sqlx::query_scalar!(
            "-- store::client_thread::name::of_agentable
            select thread from houston.client_threads where tenant_id = $1 and agentable_id = $2 order by created_at limit 1",
            self.tenant.0,
            agentable.0
        );
        Ok(name.fetch_optional(&self.pool).await?)
    }

    /// The runs of a user over all agentables of a kind, or of all kinds, newest first; older than `before`, if it is given.
    pub async fn runs_of_user(
        self,
        user: UserId,
        kind: Option<&str>,
        before: Option<RunId>,
        limit: i64,
    ) -> Result<Vec<RunId>> {
        let ids = sqlx::query_scalar!(
            r#"-- store::client_thread::name::runs_of_user
            select r.id as "id!"
              from houston.agentables a
              cross join lateral (
                    select id from houston.runs
                     where tenant_id = $1 and agentable_id = a.id and id < $4
                     order by first_seq desc limit $5) r
             where a.tenant_id = $1 and a.user_id = $2 and ($3::text is null or a.kind = $3)
             order by r.id desc limit $5"#,
            self.tenant.0,
            user.0,
            kind,
            before.map_or(Uuid::max(), |id| id.0),
            limit
        );
        Ok(ids.fetch_all(&self.pool).await?.into_iter().map(RunId).collect())
    }
}
