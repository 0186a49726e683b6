//! Teams: ordered agents of one kind, and a router that picks one of them for each run.

use houston_domain::answering::Output;
use houston_domain::id::{AgentId, AgentableId, TeamId, TenantId};
use houston_domain::team::Router;
pub use houston_domain::team::Team;
use houston_domain::time::Time;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::agent::{Changed, Deletion, UsedBy, deletion, exists};
use crate::bound;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, Once};
use crate::statement::{Statement as _, uuids};

macro_rules! team {
    ($row:expr) => {{
        let row = $row;
        let agents: Vec<AgentId> = row.agents.into_iter().map(AgentId).collect();
        Team {
            id: TeamId(row.id),
            kind: row.kind,
            name: row.name,
            description: row.description,
            fallback: AgentId(row.fallback),
            agents,
            router: row.router.0,
            output: row.output.map(|output| output.0),
            version: row.version,
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        }
    }};
}

/// Replaces the list of the team's agents.
async fn write_agents(connection: &mut PgConnection, tenant: TenantId, team: &Team) -> Result<()> {
    sqlx::query!(
        "-- store::team::clear
        delete from houston.team_agents m using houston.teams t
         where t.tenant_id = $2 and t.id = $1 and m.team_id = t.id",
        team.id.0,
        tenant.0
    )
    .execute(&mut *connection)
    .await?;
    let done = sqlx::query!(
        "-- store::team::fill
        insert into houston.team_agents (team_id, position, agent_id, is_fallback)
        select $1, m.n, a.id, a.id = $3
          from unnest($2::uuid[]) with ordinality as m (agent_id, n)
          join houston.agents a on a.tenant_id = $4 and a.id = m.agent_id",
        team.id.0,
        &uuids(&team.agents),
        team.fallback.0,
        tenant.0
    )
    .execute(connection)
    .await
    .map_err(|error| gone(error.into()))?;
    let all = usize::try_from(done.rows_affected()) == Ok(team.agents.len());
    if all { Ok(()) } else { Err(Error::NotFound { what: "agent" }) }
}

/// Maps the violation of a foreign key (SQLSTATE 23503): an agent of the list was deleted meanwhile.
fn gone(error: Error) -> Error {
    if error.sqlstate().as_deref() == Some("23503") { Error::NotFound { what: "agent" } } else { error }
}

impl TenantStore<'_> {
    /// Creates a team.
    ///
    /// # Errors
    /// [`Error::Exists`] when the name is taken, [`Error::Full`] when the tenant has the maximum number of teams,
    /// [`Error::NotFound`] when the tenant has no such agent.
    pub async fn create_team(self, team: &Team, once: Once<'_>) -> Result<Created<Value>> {
        let limit = i64::from(self.team_limits.teams_per_tenant);
        let create = async |tx: &mut PgConnection| {
            bound::lock(tx, "teams", self.tenant.0).await?;
            sqlx::query!(
                "-- store::team::create
                insert into houston.teams (id, tenant_id, kind, name, description, router, created_at, updated_at, output)
                select $1, $2, $3, $4, $5, $6, $7, $7, $9
                 where (select count(*) from houston.teams where tenant_id = $2) < $8",
                team.id.0,
                self.tenant.0,
                team.kind,
                team.name,
                team.description,
                Json(&team.router) as _,
                team.created_at.0,
                limit,
                team.output.as_ref().map(Json) as _
            )
            .run_or(&mut *tx, Error::Full { what: "teams of a tenant", limit })
            .await
            .map_err(|error| exists(error, "team"))?;
            write_agents(tx, self.tenant, team).await
        };
        let created = self.create_once(team.id.0, once, create).await;
        self.name_holder(&team.name, created).await
    }

    /// Teams of the tenant, newest first, older than `before` if given; with `only`, that one.
    pub async fn teams(self, only: Option<TeamId>, before: Option<TeamId>, limit: i64) -> Result<Vec<Team>> {
        let rows = sqlx::query!(
            r#"-- store::team::list
            with own as materialized (
                select * from houston.teams
                 where tenant_id = $1 and ($2::uuid is null or id = $2) and ($3::uuid is null or id < $3))
            select t.id, t.kind, t.name, t.description, t.router as "router: Json<Router>",
                   t.output as "output: Json<Output>", t.version, t.created_at,
                   t.updated_at, m.agents as "agents!", m.fallback as "fallback!"
              from (select * from own order by id desc limit $4) as t
             cross join lateral (
                   select array_agg(agent_id order by position) as agents,
                          (array_agg(agent_id order by is_fallback desc, position))[1] as fallback
                     from houston.team_agents where team_id = t.id) as m
             order by t.id desc"#,
            self.tenant.0,
            only.map(|only| only.0),
            before.map(|before| before.0),
            limit
        )
        .map(|row| team!(row));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Reads a team of the tenant.
    pub async fn team(self, id: TeamId) -> Result<Team> {
        self.teams(Some(id), None, 1).await?.pop().ok_or(Error::NotFound { what: "team" })
    }

    /// Replaces the team with the same id if, given `version`, it has that version. Returns the result.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such team or agent, [`Error::Exists`] when the name is taken.
    pub async fn change_team(self, team: &Team, version: Option<i64>) -> Result<Changed<Team>> {
        let changed = self.update_team(team, version).await;
        let is_changed = self.name_holder(&team.name, changed).await?;
        let team = self.team(team.id).await?;
        Ok(if is_changed { Changed::Done(team) } else { Changed::Stale(team.version) })
    }

    /// Returns whether a row with that id and version existed.
    async fn update_team(self, team: &Team, version: Option<i64>) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        // Agents, then teams, then who is in which: what deletes an agent looks for its teams when it has locked it.
        sqlx::query!(
            "-- store::team::agents
            select from houston.agents where tenant_id = $1 and id = any ($2) order by id for key share",
            self.tenant.0,
            &uuids(&team.agents)
        )
        .execute(&mut *tx)
        .await?;
        let done = sqlx::query!(
            "-- store::team::change
            update houston.teams
               set name = $3, description = $4, router = $5, kind = $6, output = $8, version = version + 1,
                   updated_at = statement_timestamp()
             where tenant_id = $1 and id = $2 and ($7::bigint is null or version = $7)",
            self.tenant.0,
            team.id.0,
            team.name,
            team.description,
            Json(&team.router) as _,
            team.kind,
            version,
            team.output.as_ref().map(Json) as _
        )
        .execute(&mut *tx)
        .await
        .map_err(|error| exists(error.into(), "team"))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        write_agents(&mut tx, self.tenant, team).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes a team of the tenant, unless an agentable uses it. Its agents stay.
    pub async fn delete_team(self, id: TeamId) -> Result<Deletion> {
        let done = sqlx::query!(
            "-- store::team::delete
            delete from houston.teams where tenant_id = $1 and id = $2",
            self.tenant.0,
            id.0
        )
        .run_or(&self.pool, Error::NotFound { what: "team" })
        .await;
        deletion(done, self.users_of_team(id)).await
    }

    async fn users_of_team(self, id: TeamId) -> Result<Vec<UsedBy>> {
        let rows = sqlx::query!(
            "-- store::team::users
            select kind, id from houston.agentables where tenant_id = $1 and team_id = $2 order by id limit 5",
            self.tenant.0,
            id.0
        )
        .map(|row| UsedBy::Agentable(row.kind, AgentableId(row.id)));
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
