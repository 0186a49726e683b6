//! Lists over all tenants of an installation, for its operator.
//!
//! No query here is restricted to a tenant, so none may be reachable from the API.

use chrono::{DateTime, Utc};
use houston_domain::id::{TenantId, UserId};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::OperatorStore;

/// A row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The id of the user, agentable, run, agent or team.
    pub id: Uuid,
    /// The name of the tenant it belongs to.
    pub tenant: String,
    /// Its kind, or the kind it is for; empty for a user.
    pub kind: String,
    /// Its name or title.
    pub name: String,
    /// Its status; for a user the `external_id`.
    pub status: Option<String>,
    /// For a run its agentable, for an agentable its user.
    pub of: Option<Uuid>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

/// Selects the rows of a list; `None` matches any value.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'f> {
    /// The name of a tenant.
    pub tenant: Option<&'f str>,
    /// The user the rows belong to.
    pub user: Option<UserId>,
    /// Maximum number of rows.
    pub limit: i64,
}

impl OperatorStore<'_> {
    /// The tenant with this name.
    pub async fn tenant_named(self, name: &str) -> Result<TenantId> {
        let found = sqlx::query_scalar!(
            "-- store::directory::tenant_named
            select id from houston.tenants where name = $1",
            name
        );
        let found = found.fetch_optional(&self.pool).await?;
        found.map(TenantId).ok_or(Error::NotFound { what: "tenant" })
    }

    /// Lists users, newest first.
    pub async fn list_users(self, filter: Filter<'_>) -> Result<Vec<Listed>> {
        let rows = sqlx::query_as!(
            Listed,
            r#"-- store::directory::users
            select u.id, t.name as tenant, '' as "kind!", u.name, u.external_id as "status?", null::uuid as "of?",
                   u.created_at
              from houston.users u join houston.tenants t on t.id = u.tenant_id
             where ($1::text is null or t.name = $1) and ($2::uuid is null or u.id = $2)
             order by u.id desc limit $3"#,
            filter.tenant,
            filter.user.map(|user| user.0),
            filter.limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Lists agentables of these kinds, newest first. `status` is the stored status, or else that of the latest
    /// run.
    pub async fn list_agentables(self, kinds: &[String], filter: Filter<'_>) -> Result<Vec<Listed>> {
        let rows = sqlx::query_as!(
            Listed,
            r#"-- store::directory::agentables
            select a.id, t.name as tenant, a.kind, a.title as name, coalesce(a.status, r.status) as "status?",
                   a.user_id as "of?", a.created_at
              from houston.agentables a join houston.tenants t on t.id = a.tenant_id
              join houston.run_locks l on l.agentable_id = a.id
              left join houston.runs r on r.id = l.run_id
             where a.kind = any ($4) and ($1::text is null or t.name = $1) and ($2::uuid is null or a.user_id = $2)
             order by a.id desc limit $3"#,
            filter.tenant,
            filter.user.map(|user| user.0),
            filter.limit,
            kinds
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Lists runs, newest first.
    pub async fn list_runs(self, filter: Filter<'_>) -> Result<Vec<Listed>> {
        let rows = sqlx::query_as!(
            Listed,
            r#"-- store::directory::runs
            select r.id, t.name as tenant, a.kind, a.title as name, r.status as "status?", a.id as "of?", r.created_at
              from houston.runs r join houston.agentables a on a.id = r.agentable_id
              join houston.tenants t on t.id = r.tenant_id
             where ($1::text is null or t.name = $1) and ($2::uuid is null or a.user_id = $2)
             order by r.id desc limit $3"#,
            filter.tenant,
            filter.user.map(|user| user.0),
            filter.limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Lists agents, newest first.
    pub async fn list_agents(self, filter: Filter<'_>) -> Result<Vec<Listed>> {
        let rows = sqlx::query_as!(
            Listed,
            r#"-- store::directory::agents
            select a.id, t.name as tenant, a.kind, a.name,
                   case when not a.enabled then 'disabled' when a.is_default then 'default' else 'enabled' end
                       as "status?", null::uuid as "of?", a.created_at
              from houston.agents a join houston.tenants t on t.id = a.tenant_id
             where ($1::text is null or t.name = $1) order by a.id desc limit $2"#,
            filter.tenant,
            filter.limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Lists teams, newest first.
    pub async fn list_teams(self, filter: Filter<'_>) -> Result<Vec<Listed>> {
        let rows = sqlx::query_as!(
            Listed,
            r#"-- store::directory::teams
            select s.id, t.name as tenant, s.kind, s.name, null::text as "status?", null::uuid as "of?", s.created_at
              from houston.teams s join houston.tenants t on t.id = s.tenant_id
             where ($1::text is null or t.name = $1) order by s.id desc limit $2"#,
            filter.tenant,
            filter.limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
