//! Agentables: anything an agent runs for, each with its lock row.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentId, AgentableId, RunId, TeamId, TenantId, UserId};
use houston_domain::run::RunStatus;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::cost::Cost;
use crate::error::{Error, Result};
use crate::idempotency::{Created, IdempotencyKey, take};
use crate::pool::Store;
use crate::serving::{self, ServedBy, ServingChange, assign};

/// An agentable about to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewAgentable<'a> {
    /// Its id.
    pub id: AgentableId,
    /// Whose it is.
    pub user: UserId,
    /// The name of its agent type.
    pub kind: &'a str,
    /// One line.
    pub title: &'a str,
    /// What it is about.
    pub description: &'a str,
    /// Its first status.
    pub status: Option<&'a str>,
    /// The tools it may call, of those of its kind; `None`: all of them.
    pub tools: Option<&'a [String]>,
    /// When it is made.
    pub created_at: DateTime<Utc>,
}

/// An agentable as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Agentable {
    /// Its id.
    pub id: AgentableId,
    /// Whose it is.
    pub user: UserId,
    /// The name of its agent type.
    pub kind: String,
    /// One line.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// Its stored status; how it stands follows from this and its run, see
    /// [`houston_domain::agentable::AgentType::status`].
    pub status: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The position of its newest event.
    pub last_seq: i64,
    /// Its open run, or the latest one.
    pub run: Option<RunId>,
    /// Whether that run is open.
    pub run_open: bool,
    /// How that run stands or ended.
    pub run_status: Option<RunStatus>,
    /// What all its model calls cost.
    pub cost: Cost,
    /// Who answers for it.
    pub served_by: ServedBy,
    /// The tools it may call, of those of its kind; `None`: all of them.
    pub tools: Option<Vec<String>>,
    /// Which agentable it works for, with the kind of that; none of one that nobody began.
    pub parent: Option<(String, AgentableId)>,
}

/// What changes in an agentable; `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentableChange {
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Who answers, and with what.
    pub serving: ServingChange,
}

/// The stored status of an agentable, and that of its latest run.
pub type StoredStatus = (Option<String>, Option<RunStatus>);

/// Which agentables a list has; `None`: whatever it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentableFilter {
    /// Whose they are.
    pub user: Option<UserId>,
    /// Their stored status together with that of their latest run, see
    /// [`houston_domain::agentable::AgentType::shown_as`].
    pub statuses: Option<Vec<StoredStatus>>,
}

macro_rules! agentable {
    ($row:expr) => {{
        let a = $row;
        Agentable {
            id: AgentableId(a.id),
            user: UserId(a.user_id),
            kind: a.kind,
            title: a.title,
            description: a.description,
            status: a.status,
            created_at: a.created_at,
            last_seq: a.last_seq,
            run: a.run_id.map(RunId),
            run_open: a.run_open,
            run_status: a.run_status.as_deref().and_then(RunStatus::from_name),
            cost: Cost::of(a.cost, a.unpriced_calls),
            served_by: ServedBy { agent: a.agent_id.map(AgentId), team: a.team_id.map(TeamId) },
            tools: a.tools,
            parent: a.parent_kind.zip(a.parent_id).map(|(kind, id)| (kind, AgentableId(id))),
        }
    }};
}

pub(crate) async fn insert(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: &NewAgentable<'_>,
    made_with_user: bool,
) -> Result<()> {
    sqlx::query!(
        "-- store::agentable::insert
        with made as (
            insert into houston.agentables (id, tenant_id, user_id, kind, title, description, status, created_at,
                                            made_with_user, tools)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning id, tenant_id, user_id)
        insert into houston.run_locks (agentable_id, tenant_id, user_id) select id, tenant_id, user_id from made",
        agentable.id.0,
        tenant.0,
        agentable.user.0,
        agentable.kind,
        agentable.title,
        agentable.description,
        agentable.status,
        agentable.created_at,
        made_with_user,
        agentable.tools
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl Store {
    /// Makes an agentable for a user of the tenant. `response` is what the client is answered, kept under the
    /// idempotency key.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user.
    pub async fn create_agentable(
        &self,
        tenant: TenantId,
        agentable: &NewAgentable<'_>,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        self.create_agentable_for(tenant, agentable, ServedBy::default(), key, response).await
    }

    /// The same, and says who answers for it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, or the agent or team is gone.
    pub async fn create_agentable_for(
        &self,
        tenant: TenantId,
        agentable: &NewAgentable<'_>,
        served_by: ServedBy,
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(key) = key {
            match take(&mut tx, tenant, key, agentable.id.0, response).await? {
                Created::New(_) => {}
                earlier => return Ok(earlier),
            }
        }
        sqlx::query!(
            "-- store::agentable::owner
            select id from houston.users where tenant_id = $1 and id = $2 for key share",
            tenant.0,
            agentable.user.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "user" })?;
        insert(&mut tx, tenant, agentable, false).await?;
        if served_by != ServedBy::default() {
            assign(&mut tx, tenant, agentable.id, served_by).await?;
        }
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// An agentable of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn agentable(&self, tenant: TenantId, kind: &str, id: AgentableId) -> Result<Agentable> {
        let a = sqlx::query!(
            r#"-- store::agentable::get
            select a.id, a.user_id, a.kind, a.title, a.description, a.status, a.created_at, l.last_seq, l.run_id,
                   a.cost, a.unpriced_calls, a.agent_id, a.team_id, a.tools, l.run_open, r.status as "run_status?",
                   a.parent_id, p.kind as "parent_kind?"
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
              left join houston.agentables p on p.id = a.parent_id
             where a.tenant_id = $1 and a.id = $2 and a.kind = $3"#,
            tenant.0,
            id.0,
            kind
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        Ok(agentable!(a))
    }

    /// Agentables of one kind of the tenant, newest first, older than `before` if given; of one user, and of those
    /// statuses, if given.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres does not answer or refuses.
    pub async fn agentables(
        &self,
        tenant: TenantId,
        kind: &str,
        filter: &AgentableFilter,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        let statuses = filter.statuses.as_deref().unwrap_or_default();
        let stored: Vec<&str> = statuses.iter().map(|(stored, _)| stored.as_deref().unwrap_or("")).collect();
        let runs: Vec<&str> = statuses.iter().map(|(_, run)| run.map_or("", RunStatus::as_str)).collect();
        let before = before.map(|before| before.0);
        match filter.user {
            Some(user) => {
                self.agentables_of_user(
                    tenant,
                    user,
                    kind,
                    (filter.statuses.is_some(), &stored, &runs),
                    before,
                    limit,
                )
                .await
            }
            None => {
                self.agentables_of_tenant(
                    tenant,
                    kind,
                    (filter.statuses.is_some(), &stored, &runs),
                    before,
                    limit,
                )
                .await
            }
        }
    }

    async fn agentables_of_user(
        &self,
        tenant: TenantId,
        user: UserId,
        kind: &str,
        (filtered, stored, runs): (bool, &[&str], &[&str]),
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        let rows = sqlx::query!(
            r#"-- store::agentable::list_of_user
            select a.id, a.user_id, a.kind, a.title, a.description, a.status, a.created_at, l.last_seq, l.run_id,
                   a.cost, a.unpriced_calls, a.agent_id, a.team_id, a.tools, l.run_open, r.status as "run_status?",
                   a.parent_id, p.kind as "parent_kind?"
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
              left join houston.agentables p on p.id = a.parent_id
             where a.tenant_id = $1 and a.user_id = $2 and a.kind = $3 and ($4::uuid is null or a.id < $4)
               and (not $6 or (coalesce(a.status, ''), coalesce(r.status, '')) in (
                        select s.stored, s.run from unnest($7::text[], $8::text[]) as s (stored, run)))
             order by a.id desc limit $5"#,
            tenant.0,
            user.0,
            kind,
            before,
            limit,
            filtered,
            stored as &[&str],
            runs as &[&str]
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|a| agentable!(a)).collect())
    }

    async fn agentables_of_tenant(
        &self,
        tenant: TenantId,
        kind: &str,
        (filtered, stored, runs): (bool, &[&str], &[&str]),
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        let rows = sqlx::query!(
            r#"-- store::agentable::list_of_tenant
            select a.id, a.user_id, a.kind, a.title, a.description, a.status, a.created_at, l.last_seq, l.run_id,
                   a.cost, a.unpriced_calls, a.agent_id, a.team_id, a.tools, l.run_open, r.status as "run_status?",
                   a.parent_id, p.kind as "parent_kind?"
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
              left join houston.agentables p on p.id = a.parent_id
             where a.tenant_id = $1 and a.kind = $2 and ($3::uuid is null or a.id < $3)
               and (not $5 or (coalesce(a.status, ''), coalesce(r.status, '')) in (
                        select s.stored, s.run from unnest($6::text[], $7::text[]) as s (stored, run)))
             order by a.id desc limit $4"#,
            tenant.0,
            kind,
            before,
            limit,
            filtered,
            stored as &[&str],
            runs as &[&str]
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|a| agentable!(a)).collect())
    }

    /// Changes what is given of an agentable of the tenant. Who answers, and with what, changes from its next run on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such agentable, or the agent or team is gone.
    pub async fn change_agentable(
        &self,
        tenant: TenantId,
        id: AgentableId,
        change: &AgentableChange,
    ) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        // A title that was to be found is found no more.
        let described = sqlx::query!(
            "-- store::agentable::describe
            with asked as (delete from houston.title_requests where agentable_id = $2 and tenant_id = $1
                                                               and $3::text is not null)
            update houston.agentables a
               set title = coalesce($3, a.title), description = coalesce($4, a.description)
              from houston.run_locks l
             where a.tenant_id = $1 and a.id = $2 and l.agentable_id = a.id",
            tenant.0,
            id.0,
            change.title,
            change.description
        )
        .execute(&mut *tx)
        .await?;
        if described.rows_affected() == 0 {
            return Err(Error::NotFound { what: "agentable" });
        }
        if change.serving != ServingChange::default() {
            serving::set(&mut tx, tenant, id, &change.serving).await?;
        }
        Ok(tx.commit().await?)
    }
}
