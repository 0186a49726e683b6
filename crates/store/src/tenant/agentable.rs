//! Agentables: anything an agent runs for, each with its row in `run_locks`.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentId, AgentableId, RunId, TeamId, TenantId, UserId};
use houston_domain::run::RunStatus;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;

use crate::cost::Cost;
use crate::creation::Creation;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::message::uuid;
use crate::serving::{self, ServedBy, ServingChange};
use crate::statement::Statement as _;

/// An agentable to be created.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct NewAgentable<'a> {
    /// The agentable's id.
    #[serde(serialize_with = "uuid")]
    pub id: AgentableId,
    /// The user it belongs to.
    #[serde(skip)]
    pub user: UserId,
    /// Its kind, as in `goal`.
    pub kind: &'a str,
    /// Its title, one line.
    pub title: &'a str,
    /// What it is about.
    pub description: &'a str,
    /// Its first stored status.
    pub status: Option<&'a str>,
    /// The tools it may call, out of those of its kind; `None`: all of them.
    pub tools: Option<&'a [String]>,
    /// When it is created.
    pub created_at: DateTime<Utc>,
}

/// An agentable.
#[derive(Debug, Clone, PartialEq)]
pub struct Agentable {
    /// The agentable's id.
    pub id: AgentableId,
    /// The user it belongs to.
    pub user: UserId,
    /// Its kind, as in `goal`.
    pub kind: String,
    /// Its title, one line.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// Its stored status. The status that clients see follows from this and the latest run, see
    /// [`houston_domain::agentable::AgentType::status`].
    pub status: Option<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// The position of its newest event.
    pub last_seq: i64,
    /// Its open run, or the latest one.
    pub run: Option<RunId>,
    /// Whether that run is open.
    pub run_open: bool,
    /// The status of that run.
    pub run_status: Option<RunStatus>,
    /// Cost of all its model calls.
    pub cost: Cost,
    /// The agent or team that answers for it.
    pub served_by: ServedBy,
    /// The tools it may call, out of those of its kind; `None`: all of them.
    pub tools: Option<Vec<String>>,
    /// Kind and id of the agentable that created it, for a task.
    pub parent: Option<(String, AgentableId)>,
}

/// A change of an agentable; `None` leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentableChange {
    /// The new title.
    pub title: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// The new agent or team, and the new tools.
    pub serving: ServingChange,
}

/// The stored status of an agentable, and the status of its latest run.
pub type StoredStatus = (Option<String>, Option<RunStatus>);

/// Selects agentables for a list; `None` matches any value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentableFilter {
    /// The user they belong to.
    pub user: Option<UserId>,
    /// Pairs of stored status and status of the latest run, see
    /// [`houston_domain::agentable::AgentType::pairs_with_status`].
    pub statuses: Option<Vec<StoredStatus>>,
}

/// Reads agentables `a`, between the name of the query and the conditions.
macro_rules! query_agentables {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + r#"
            select a.id, a.user_id, a.kind, a.title, a.description, a.status, a.created_at, l.last_seq, l.run_id,
                   l.cost, l.unpriced_calls, a.agent_id, a.team_id, a.tools, l.run_open, r.status as "run_status?",
                   a.parent_id, p.kind as "parent_kind?"
              from houston.agentables a
              join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
              left join houston.agentables p on p.id = a.parent_id
            "# + $after
            $(, $parameter)*
        )
        .map(|a| Agentable {
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
        })
    };
}
pub(crate) use query_agentables;

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
    .run(connection)
    .await
}

impl TenantStore<'_> {
    /// Creates an agentable for a user of the tenant.
    pub async fn create_agentable(
        self,
        agentable: &NewAgentable<'_>,
        once: Once<'_>,
    ) -> Result<Created<Value>> {
        let creation = Creation { agentable: Some(agentable), ..Creation::default() };
        self.create(&creation, once).await
    }

    /// Reads an agentable of the tenant.
    pub async fn agentable(self, kind: &str, id: AgentableId) -> Result<Agentable> {
        let a = query_agentables!(
            "-- store::agentable::get",
            "where a.tenant_id = $1 and a.id = $2 and a.kind = $3",
            self.tenant.0,
            id.0,
            kind
        );
        a.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "agentable" })
    }

    /// Agentables of one kind of the tenant that match `filter`, newest first, older than `before` if given.
    pub async fn agentables(
        self,
        kind: &str,
        filter: &AgentableFilter,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        let statuses = filter.statuses.as_deref().unwrap_or_default();
        let stored: Vec<&str> = statuses.iter().map(|(stored, _)| stored.as_deref().unwrap_or("")).collect();
        let runs: Vec<&str> = statuses.iter().map(|(_, run)| run.map_or("", RunStatus::as_str)).collect();
        let before = before.map(|before| before.0);
        // Two statements, so that each reads the index of its filter.
        if let Some(user) = filter.user {
            let rows = query_agentables!(
                "-- store::agentable::list_of_user",
                "where a.tenant_id = $1 and a.user_id = $2 and a.kind = $3 and ($4::uuid is null or a.id < $4)
                   and (not $6 or (coalesce(a.status, ''), coalesce(r.status, '')) in (
                            select s.stored, s.run from unnest($7::text[], $8::text[]) as s (stored, run)))
                 order by a.id desc limit $5",
                self.tenant.0,
                user.0,
                kind,
                before,
                limit,
                filter.statuses.is_some(),
                &stored as &[&str],
                &runs as &[&str]
            );
            return Ok(rows.fetch_all(&self.pool).await?);
        }
        let rows = query_agentables!(
            "-- store::agentable::list_of_tenant",
            "where a.tenant_id = $1 and a.kind = $2 and ($3::uuid is null or a.id < $3)
               and (not $5 or (coalesce(a.status, ''), coalesce(r.status, '')) in (
                        select s.stored, s.run from unnest($6::text[], $7::text[]) as s (stored, run)))
             order by a.id desc limit $4",
            self.tenant.0,
            kind,
            before,
            limit,
            filter.statuses.is_some(),
            &stored as &[&str],
            &runs as &[&str]
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Applies a change to an agentable of the tenant. A new agent, team or set of tools applies from the next run
    /// on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, agent or team.
    pub async fn change_agentable(self, id: AgentableId, change: &AgentableChange) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        // A title set here withdraws a pending request to find one.
        sqlx::query!(
            "-- store::agentable::describe
            with asked as (delete from houston.title_requests where agentable_id = $2 and tenant_id = $1
                                                               and $3::text is not null)
            update houston.agentables a
               set title = coalesce($3, a.title), description = coalesce($4, a.description)
              from houston.run_locks l
             where a.tenant_id = $1 and a.id = $2 and l.agentable_id = a.id",
            self.tenant.0,
            id.0,
            change.title,
            change.description
        )
        .run_or(&mut *tx, Error::NotFound { what: "agentable" })
        .await?;
        if change.serving != ServingChange::default() {
            serving::set(&mut tx, self.tenant, id, &change.serving).await?;
        }
        Ok(tx.commit().await?)
    }
}
