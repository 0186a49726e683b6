//! Copies of what belongs to no user: tenants, API keys, agents, teams, tool sources, webhooks, and the skills and MCP servers of
//! tenants.
//! They are changed in one cell, the home, and copied to the others, so that everything else reads them beside the rows of
//! users.
//!
//! Copying is repeated until it succeeds: after each change, and at the start of a process. The lock of the tenant's row
//! at the home serialises the copies of a tenant, so an older state never replaces a newer one.

use chrono::{DateTime, Utc};
use houston_domain::cell::Cells;
use houston_domain::id::{TenantId, WebhookId};
use serde_json::Value;
use sqlx::PgConnection;

use crate::connections::Connections;
use crate::error::Result;
use crate::handle::ApiStore;
use crate::statement::in_turn;
use crate::webhook;

/// Copies from the first cell to the others. With one cell it does nothing.
#[derive(Debug, Clone)]
pub struct Copies {
    home: Connections,
    others: Vec<Connections>,
}

impl Copies {
    /// Copies between these cells.
    pub fn new(stores: &Cells<ApiStore>) -> Self {
        Self {
            home: stores.home().shared.pool.clone(),
            others: stores.others().map(|store| store.shared.pool.clone()).collect(),
        }
    }

    /// Makes the tenant, its keys, agents, teams and skills those of the home in all cells.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when a cell cannot be reached, or refuses to delete an agent or a team
    /// that is in use there. Other cells may have the copy.
    pub async fn copy(&self, tenant: TenantId) -> Result<()> {
        if self.others.is_empty() {
            return Ok(());
        }
        let mut tx = self.home.begin().await?;
        let rows = sqlx::query_scalar!(
            r#"-- store::copies::read
            select jsonb_build_object(
                       'tenant', to_jsonb(t),
                       'keys', (select coalesce(jsonb_agg(k order by k.id), '[]') from houston.api_keys k
                                 where k.tenant_id = t.id and k.parent_id is null),
                       'agents', (select coalesce(jsonb_agg(a), '[]') from houston.agents a where a.tenant_id = t.id),
                       'teams', (select coalesce(jsonb_agg(m), '[]') from houston.teams m where m.tenant_id = t.id),
                       'members', (select coalesce(jsonb_agg(x), '[]') from houston.team_agents x
                                     join houston.teams m on m.id = x.team_id where m.tenant_id = t.id),
                       'sources', (select coalesce(jsonb_agg(s), '[]') from houston.tool_sources s
                                    where s.tenant_id = t.id),
                       'mcp_servers', (select coalesce(jsonb_agg(s), '[]') from houston.mcp_servers s
                                        where s.owner_id = t.id),
                       'webhooks', (select coalesce(jsonb_agg(w), '[]') from houston.webhooks w
                                    where w.tenant_id = t.id and w.run_id is null),
                       'skills', (select coalesce(jsonb_agg(jsonb_build_object(
                                             'name', s.name, 'updated_at', s.updated_at, 'hash', md5(concat(
                                                 s.text, s.summary,
                                                 (select string_agg(f.path || md5(f.content), ' ' order by f.path)
                                                    from houston.skill_files f
                                                   where f.owner_id = s.owner_id and f.skill = s.name))))), '[]')
                                    from houston.skills s where s.owner_id = t.id)) as "rows!"
              from (select l.* from houston.tenants l where l.id = $1 for no key update) t"#,
            tenant.0
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(rows) = rows {
            for other in &self.others {
                replace(other, tenant, &rows, &mut tx).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    /// Switches a webhook off in all cells: its receiver is gone. With one cell it does nothing: there, what settles the
    /// delivery does it. It may be repeated.
    pub async fn switch_off_webhook(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        now: DateTime<Utc>,
    ) -> Result<()> {
        if self.others.is_empty() {
            return Ok(());
        }
        let mut home = self.home.acquire().await?;
        webhook::switch_off(&mut home, webhook, webhook::GONE, now).await?;
        drop(home);
        self.copy(tenant).await
    }

    /// Copies all tenants: after a cell was added, or could not be reached.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when a cell cannot be reached. Tenants copied before stay copied.
    pub async fn copy_all(&self) -> Result<()> {
        if self.others.is_empty() {
            return Ok(());
        }
        let tenants =
            sqlx::query_scalar!("-- store::copies::all\nselect id from houston.tenants order by id")
                .fetch_all(&self.home)
                .await?;
        for tenant in tenants {
            self.copy(TenantId(tenant)).await?;
        }
        Ok(())
    }
}

/// Makes the rows of a tenant those of the home.
async fn replace(other: &Connections, tenant: TenantId, rows: &Value, home: &mut PgConnection) -> Result<()> {
    let mut tx = other.begin().await?;
    let of_tenant = [
        sqlx::query!(
            "-- store::copies::tenant
            insert into houston.tenants
            select r.* from jsonb_populate_record(null::houston.tenants, $1::jsonb->'tenant') r
            on conflict (id) do update
               set name = excluded.name, guards = excluded.guards, tool_sources = excluded.tool_sources",
            rows
        ),
        sqlx::query!(
            "-- store::copies::keys
            insert into houston.api_keys
            select r.* from jsonb_populate_recordset(null::houston.api_keys, $1::jsonb->'keys') r
            on conflict (id) do update
               set name = excluded.name, revoked_at = excluded.revoked_at, scopes = excluded.scopes,
                   user_id = excluded.user_id, expires_at = excluded.expires_at",
            rows
        ),
    ];
    in_turn(&mut tx, of_tenant).await?;
    agents(&mut tx, tenant, rows).await?;
    skills(&mut tx, tenant, rows, home).await?;
    let mcp_servers = [
        sqlx::query!(
            "-- store::copies::mcp_servers_gone\ndelete from houston.mcp_servers where owner_id = $1",
            tenant.0
        ),
        sqlx::query!(
            "-- store::copies::mcp_servers
            insert into houston.mcp_servers
            select r.* from jsonb_populate_recordset(null::houston.mcp_servers, $1::jsonb->'mcp_servers') r",
            rows
        ),
    ];
    in_turn(&mut tx, mcp_servers).await?;
    webhook::copy(&mut tx, tenant, rows).await?;
    Ok(tx.commit().await?)
}

/// Deletes agents, teams and their members, and tool sources that the home does not have, frees the names that belong to others
/// there, and inserts and updates all that it has.
async fn agents(connection: &mut PgConnection, tenant: TenantId, rows: &Value) -> Result<()> {
    let copies = [
        sqlx::query!(
            "-- store::copies::members_gone
            with sources as (delete from houston.tool_sources where tenant_id = $1)
            delete from houston.team_agents x using houston.teams m where m.id = x.team_id and m.tenant_id = $1",
            tenant.0
        ),
        sqlx::query!(
            "-- store::copies::teams_gone
            with gone as (
                delete from houston.teams m
                 where m.tenant_id = $1 and not exists (
                       select from jsonb_to_recordset($2::jsonb->'teams') as r (id uuid) where r.id = m.id))
            update houston.teams m set name = m.id::text
              from jsonb_to_recordset($2::jsonb->'teams') as r (id uuid, name text)
             where m.tenant_id = $1 and r.id = m.id and r.name <> m.name",
            tenant.0,
            rows
        ),
        sqlx::query!(
            "-- store::copies::agents_gone
            with gone as (
                delete from houston.agents a
                 where a.tenant_id = $1 and not exists (
                       select from jsonb_to_recordset($2::jsonb->'agents') as r (id uuid) where r.id = a.id))
            update houston.agents a set name = a.id::text
              from jsonb_to_recordset($2::jsonb->'agents') as r (id uuid, name text)
             where a.tenant_id = $1 and r.id = a.id and r.name <> a.name",
            tenant.0,
            rows
        ),
        sqlx::query!(
            "-- store::copies::agents
            insert into houston.agents
            select r.* from jsonb_populate_recordset(null::houston.agents, $1::jsonb->'agents') r
            on conflict (id) do update
               set name = excluded.name, is_default = excluded.is_default, changed = excluded.changed,
                   enabled = excluded.enabled, settings = excluded.settings, version = excluded.version,
                   updated_at = excluded.updated_at",
            rows
        ),
        sqlx::query!(
            "-- store::copies::teams
            insert into houston.teams
            select r.* from jsonb_populate_recordset(null::houston.teams, $1::jsonb->'teams') r
            on conflict (id) do update
               set name = excluded.name, description = excluded.description, router = excluded.router,
                   version = excluded.version, updated_at = excluded.updated_at",
            rows
        ),
        sqlx::query!(
            "-- store::copies::members
            with members as (
                insert into houston.team_agents
                select r.* from jsonb_populate_recordset(null::houston.team_agents, $1::jsonb->'members') r)
            insert into houston.tool_sources
            select r.* from jsonb_populate_recordset(null::houston.tool_sources, $1::jsonb->'sources') r",
            rows
        ),
    ];
    in_turn(connection, copies).await
}

/// Makes the skills of the tenant those of the home. They may be long, so only the texts of those that differ are sent: both
/// cells hash what they have.
async fn skills(
    connection: &mut PgConnection,
    tenant: TenantId,
    rows: &Value,
    home: &mut PgConnection,
) -> Result<()> {
    let missing: Vec<String> = sqlx::query_scalar!(
        r#"-- store::copies::skills_gone
        with home as (
            select r.name, r.updated_at, r.hash
              from jsonb_to_recordset($2::jsonb->'skills') as r (name text, updated_at timestamptz, hash text)),
        same as materialized (
            select s.name
              from houston.skills s join home h on h.name = s.name and h.updated_at = s.updated_at
             where s.owner_id = $1
               and h.hash = md5(concat(s.text, s.summary,
                                       (select string_agg(f.path || md5(f.content), ' ' order by f.path)
                                          from houston.skill_files f
                                         where f.owner_id = s.owner_id and f.skill = s.name)))),
        gone as (
            delete from houston.skills s where s.owner_id = $1 and not exists (select from same e where e.name = s.name))
        select h.name as "name!" from home h where not exists (select from same e where e.name = h.name)"#,
        tenant.0,
        rows
    )
    .fetch_all(&mut *connection)
    .await?;
    if missing.is_empty() {
        return Ok(());
    }
    let changed = sqlx::query_scalar!(
        r#"-- store::copies::read_skills
        select jsonb_build_object(
                   'skills', (select coalesce(jsonb_agg(s), '[]') from houston.skills s
                               where s.owner_id = $1 and s.name = any ($2)),
                   'skill_files', (select coalesce(jsonb_agg(f), '[]') from houston.skill_files f
                                    where f.owner_id = $1 and f.skill = any ($2))) as "rows!""#,
        tenant.0,
        &missing
    )
    .fetch_one(home)
    .await?;
    let copies = [
        sqlx::query!(
            "-- store::copies::skills
            insert into houston.skills
            select r.* from jsonb_populate_recordset(null::houston.skills, $1::jsonb->'skills') r",
            changed
        ),
        sqlx::query!(
            "-- store::copies::skill_files
            insert into houston.skill_files
            select r.* from jsonb_populate_recordset(null::houston.skill_files, $1::jsonb->'skill_files') r",
            changed
        ),
    ];
    in_turn(connection, copies).await
}
