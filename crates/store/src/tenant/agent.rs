//! Agents: named configurations of a tenant, each for one kind. Each kind has a default agent, which is created
//! when the tenant first lists its agents and follows the kind's file (`jobs/agents/*.toml`) until it is changed over the API.

use chrono::{DateTime, Utc};
use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::{AgentId, AgentableId, TeamId};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::bound;
use crate::error::{Error, Result};
use crate::handle::{OperatorStore, TenantStore};
use crate::idempotency::{Created, Once};
use crate::statement::{Statement as _, uuids};

/// How many users of an agent or a team are listed when it cannot be deleted.
const NAMED_USERS: i64 = 5;

/// An agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The agent's id.
    pub id: AgentId,
    /// The kind it is for.
    pub kind: String,
    /// What people and routers call it; unique within the tenant.
    pub name: String,
    /// Whether it is the default agent of its kind.
    pub is_default: bool,
    /// Whether it differs from its kind's file, which sets neither name, description nor `enabled`. Always true
    /// unless `is_default`.
    pub changed: bool,
    /// Whether it may answer.
    pub enabled: bool,
    /// Its configuration: role, guidelines, tools, model, limits.
    pub settings: AgentSettings,
    /// Counts its changes.
    pub version: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The agents of a tenant for one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentsOfKind {
    /// The kind.
    pub kind: String,
    /// How many there are, the default agent included.
    pub agents: i64,
    /// How many of them may answer.
    pub enabled: i64,
    /// The default agent of the kind.
    pub default_agent: Option<AgentId>,
}

/// A change of an agent; `None` leaves the value as it is.
#[derive(Debug, Clone, Default)]
pub struct AgentChange<'a> {
    /// The new name.
    pub name: Option<&'a str>,
    /// Whether it may answer.
    pub enabled: Option<bool>,
    /// The whole new configuration.
    pub settings: Option<&'a AgentSettings>,
    /// Whether the agent differs from its kind's file afterwards.
    pub changed: bool,
    /// The version it must have (optimistic locking); `None`: any.
    pub version: Option<i64>,
}

/// The result of a change with optimistic locking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed<T> {
    /// The row was changed.
    Done(T),
    /// The row has this other version: it was changed in the meantime.
    Stale(i64),
}

/// A user of an agent or a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsedBy {
    /// An agentable of this kind.
    Agentable(String, AgentableId),
    /// A team.
    Team(TeamId),
}

/// The result of deleting an agent or a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    /// It was deleted.
    Deleted,
    /// It is used by these, and possibly others.
    InUse(Vec<UsedBy>),
}

/// A statement that ends with agents, between `select` or `returning` and the rest.
macro_rules! query_agents {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + r#"
                   id, kind, name, is_default, changed, enabled, settings as "settings: Json<AgentSettings>", version,
                   created_at, updated_at
            "# + $after
            $(, $parameter)*
        )
        .map(|row| Agent {
            id: AgentId(row.id),
            kind: row.kind,
            name: row.name,
            is_default: row.is_default,
            changed: row.changed,
            enabled: row.enabled,
            settings: row.settings.0,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    };
}

/// Maps the violation of a unique index (SQLSTATE 23505) to [`Error::Exists`].
pub(crate) fn exists(error: Error, what: &'static str) -> Error {
    if error.sqlstate().as_deref() == Some("23505") { Error::Exists { what, existing: None } } else { error }
}

/// What became of a deletion. `users`: finds them, if a foreign key (SQLSTATE 23503) has prevented it.
pub(crate) async fn deletion(
    done: Result<()>,
    users: impl Future<Output = Result<Vec<UsedBy>>>,
) -> Result<Deletion> {
    match done {
        Ok(()) => Ok(Deletion::Deleted),
        Err(error) if error.sqlstate().as_deref() == Some("23503") => Ok(Deletion::InUse(users.await?)),
        Err(error) => Err(error),
    }
}

impl TenantStore<'_> {
    /// The id of the tenant's `agent` or `team` with that name, as the API writes it.
    pub async fn id_of_name(self, what: &'static str, name: &str) -> Result<Option<String>> {
        let id = sqlx::query_scalar!(
            r#"-- store::agent::id_of_name
            select id as "id!" from houston.agents
             where tenant_id = $1 and name = $2 and $3 = 'agent'
            union all
            select id from houston.teams where tenant_id = $1 and name = $2 and $3 = 'team'"#,
            self.tenant.0,
            name,
            what
        );
        Ok(id.fetch_optional(&self.pool).await?.map(|id| format!("{what}_{}", id.simple())))
    }

    /// Adds the id of the existing row to an [`Error::Exists`].
    pub(crate) async fn name_holder<T>(self, name: &str, done: Result<T>) -> Result<T> {
        match done {
            Err(Error::Exists { what, .. }) => {
                Err(Error::Exists { what, existing: self.id_of_name(what, name).await? })
            }
            done => done,
        }
    }

    /// Creates an agent.
    ///
    /// # Errors
    /// [`Error::Exists`] when the name is taken, [`Error::Full`] when the tenant has the maximum number of agents.
    pub async fn create_agent(self, agent: &Agent, once: Once<'_>) -> Result<Created<Value>> {
        let limit = i64::from(self.team_limits.agents_per_tenant);
        let create = async |tx: &mut PgConnection| {
            bound::lock(tx, "agents", self.tenant.0).await?;
            sqlx::query!(
                "-- store::agent::create
                insert into houston.agents (id, tenant_id, kind, name, changed, enabled, settings, created_at, updated_at)
                select $1, $2, $3, $4, true, $5, $6, $7, $7
                 where (select count(*) from houston.agents where tenant_id = $2) < $8",
                agent.id.0,
                self.tenant.0,
                agent.kind,
                agent.name,
                agent.enabled,
                Json(&agent.settings) as _,
                agent.created_at,
                limit
            )
            .run_or(tx, Error::Full { what: "agents of a tenant", limit })
            .await
            .map_err(|error| exists(error, "agent"))
        };
        let created = self.create_once(agent.id.0, once, create).await;
        self.name_holder(&agent.name, created).await
    }

    /// Agents of the tenant, newest first, older than `before` if given.
    pub async fn agents(self, before: Option<AgentId>, limit: i64) -> Result<Vec<Agent>> {
        let rows = query_agents!(
            "-- store::agent::list
            select",
            "from houston.agents where tenant_id = $1 and ($2::uuid is null or id < $2)
             order by id desc limit $3",
            self.tenant.0,
            before.map(|before| before.0),
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// How many agents of the tenant there are for each kind that has any.
    pub async fn agents_by_kind(self) -> Result<Vec<AgentsOfKind>> {
        let of_kind = sqlx::query!(
            r#"-- store::agent::by_kind
            select kind, count(*) as "agents!", count(*) filter (where enabled) as "enabled!",
                   (array_agg(id) filter (where is_default))[1] as "default_agent?"
              from houston.agents where tenant_id = $1 group by kind"#,
            self.tenant.0
        )
        .map(|row| AgentsOfKind {
            kind: row.kind,
            agents: row.agents,
            enabled: row.enabled,
            default_agent: row.default_agent.map(AgentId),
        });
        Ok(of_kind.fetch_all(&self.pool).await?)
    }

    /// The agents of the tenant among those with these ids.
    pub async fn agents_among(self, ids: &[AgentId]) -> Result<Vec<Agent>> {
        let rows = query_agents!(
            "-- store::agent::among
            select",
            "from houston.agents where tenant_id = $1 and id = any($2)",
            self.tenant.0,
            &uuids(ids)
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Reads an agent of the tenant.
    pub async fn agent(self, id: AgentId) -> Result<Agent> {
        self.agents_among(&[id]).await?.pop().ok_or(Error::NotFound { what: "agent" })
    }

    /// Changes an agent of the tenant, and returns it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agent, [`Error::Exists`] when the name is taken.
    pub async fn change_agent(self, id: AgentId, change: &AgentChange<'_>) -> Result<Changed<Agent>> {
        let row = query_agents!(
            "-- store::agent::change
            update houston.agents
               set name = coalesce($3, name), enabled = coalesce($4, enabled), settings = coalesce($5, settings),
                   changed = $6, version = version + 1, updated_at = statement_timestamp()
             where tenant_id = $1 and id = $2 and ($7::bigint is null or version = $7)
            returning",
            "",
            self.tenant.0,
            id.0,
            change.name,
            change.enabled,
            change.settings.map(Json) as Option<Json<&AgentSettings>>,
            change.changed,
            change.version
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| exists(error.into(), "agent"));
        match self.name_holder(change.name.unwrap_or_default(), row).await? {
            Some(agent) => Ok(Changed::Done(agent)),
            None => Ok(Changed::Stale(self.agent(id).await?.version)),
        }
    }

    /// Deletes an agent of the tenant, unless it is in use.
    pub async fn delete_agent(self, id: AgentId) -> Result<Deletion> {
        let done = sqlx::query!(
            "-- store::agent::delete
            delete from houston.agents where tenant_id = $1 and id = $2 and not is_default",
            self.tenant.0,
            id.0
        )
        .run_or(&self.pool, Error::NotFound { what: "agent" })
        .await;
        deletion(done, self.users_of_agent(id)).await
    }

    async fn users_of_agent(self, id: AgentId) -> Result<Vec<UsedBy>> {
        let rows = sqlx::query!(
            r#"-- store::agent::users
            (select null as kind, m.team_id as "id!" from houston.team_agents m
               join houston.teams t on t.id = m.team_id
              where t.tenant_id = $1 and m.agent_id = $2 order by m.team_id limit $3)
            union all
            (select kind, id from houston.agentables where tenant_id = $1 and agent_id = $2 order by id limit $3)"#,
            self.tenant.0,
            id.0,
            NAMED_USERS
        )
        .map(|row| match row.kind {
            Some(kind) => UsedBy::Agentable(kind, AgentableId(row.id)),
            None => UsedBy::Team(TeamId(row.id)),
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Creates the tenant's missing default agents.
    pub async fn ensure_default_agents(self, defaults: &[DefaultAgent<'_>]) -> Result<()> {
        sqlx::query!(
            "-- store::agent::defaults::ensure
            insert into houston.agents (id, tenant_id, kind, name, is_default, settings)
            select d.id, $1, d.kind, d.kind, true, d.settings
              from jsonb_to_recordset($2) as d (id uuid, kind text, settings jsonb)
            on conflict do nothing",
            self.tenant.0,
            rows(defaults)
        )
        .run(&self.pool)
        .await
    }

    /// Resets the tenant's default agents to the settings of the files, except those that were changed over the
    /// API. Returns the result for each kind.
    pub async fn sync_default_agents(self, defaults: &[DefaultAgent<'_>]) -> Result<Vec<(String, Synced)>> {
        let rows = sqlx::query!(
            r#"-- store::agent::defaults::sync
            with file as (
                select * from jsonb_to_recordset($2) as d (id uuid, kind text, settings jsonb)),
            was as (
                select a.* from houston.agents a join file f on f.kind = a.kind
                 where a.tenant_id = $1 and a.is_default),
            updated as (
                update houston.agents a
                   set settings = f.settings || jsonb_build_object(
                                      'description', a.settings->'description', 'guards', a.settings->'guards'),
                       version = a.version + 1, updated_at = statement_timestamp()
                  from file f
                 where a.tenant_id = $1 and a.is_default and a.kind = f.kind and not a.changed
                   and a.settings - '{description,guards}'::text[] <> f.settings - 'description'
                returning a.kind),
            created as (
                insert into houston.agents (id, tenant_id, kind, name, is_default, settings)
                select f.id, $1, f.kind, f.kind, true, f.settings from file f
                 where not exists (select from was w where w.kind = f.kind)
                on conflict do nothing
                returning kind)
            select f.kind as "kind!",
                   case when c.kind is not null then 'created' when u.kind is not null then 'updated'
                        when w.changed then 'kept' else 'unchanged' end as "became!"
              from file f left join was w on w.kind = f.kind left join updated u on u.kind = f.kind
              left join created c on c.kind = f.kind
             order by f.kind"#,
            self.tenant.0,
            rows(defaults)
        )
        .map(|row| {
            let became = match row.became.as_str() {
                "created" => Synced::Created,
                "updated" => Synced::Updated,
                "kept" => Synced::Customised,
                _ => Synced::Unchanged,
            };
            (row.kind, became)
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// The default agent of a kind, as the kind's file defines it.
#[derive(Debug, Clone)]
pub struct DefaultAgent<'a> {
    /// The id to use if it does not exist yet.
    pub id: AgentId,
    /// Its kind, which is also its name.
    pub kind: &'a str,
    /// The settings in the file.
    pub settings: AgentSettings,
}

/// The result of a resync for one default agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// It did not exist and was created.
    Created,
    /// It now has the settings of the file.
    Updated,
    /// It already had the settings of the file.
    Unchanged,
    /// It was changed over the API and stays as it is.
    Customised,
}

/// One element for each.
fn rows(defaults: &[DefaultAgent<'_>]) -> Value {
    let row = |DefaultAgent { id, kind, settings }: &DefaultAgent<'_>| json!({"id": id.0, "kind": kind, "settings": settings});
    defaults.iter().map(row).collect()
}

impl OperatorStore<'_> {
    /// Resets the default agents of all tenants to the settings of the files, except those that were changed over
    /// the API; called when a server starts. Returns how many differed.
    pub async fn follow_agent_files(self, defaults: &[DefaultAgent<'_>]) -> Result<u64> {
        let done = sqlx::query!(
            "-- store::agent::defaults::follow_files
            update houston.agents a
               set settings = d.settings || jsonb_build_object(
                                      'description', a.settings->'description', 'guards', a.settings->'guards'),
                   version = a.version + 1, updated_at = statement_timestamp()
              from jsonb_to_recordset($1) as d (kind text, settings jsonb)
             where a.is_default and a.kind = d.kind and not a.changed
               and a.settings - '{description,guards}'::text[] <> d.settings - 'description'",
            rows(defaults)
        );
        Ok(done.execute(&self.pool).await?.rows_affected())
    }
}
