//! Default agents, which follow the files of their kinds (`jobs/agents/*.toml`).

use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::AgentId;
use serde_json::Value;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::{OperatorStore, TenantStore};

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

/// Columns of `defaults`, for `unnest`.
fn columns(defaults: &[DefaultAgent<'_>]) -> (Vec<Uuid>, Vec<String>, Vec<Value>) {
    let settings = |default: &DefaultAgent<'_>| serde_json::to_value(&default.settings).unwrap_or_default();
    (
        defaults.iter().map(|default| default.id.0).collect(),
        defaults.iter().map(|default| default.kind.to_owned()).collect(),
        defaults.iter().map(settings).collect(),
    )
}

impl TenantStore<'_> {
    /// Creates the tenant's missing default agents.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn ensure_default_agents(self, defaults: &[DefaultAgent<'_>]) -> Result<()> {
        let (ids, kinds, settings) = columns(defaults);
        sqlx::query!(
            "-- store::agent::defaults::ensure
            insert into houston.agents (id, tenant_id, kind, name, is_default, settings)
            select d.id, $1, d.kind, d.kind, true, d.settings
              from unnest($2::uuid[], $3::text[], $4::jsonb[]) as d (id, kind, settings)
            on conflict do nothing",
            self.tenant.0,
            &ids,
            &kinds,
            &settings
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Resets the tenant's default agents to the settings of the files, except those that were changed over the
    /// API. Returns the result for each kind.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn sync_default_agents(self, defaults: &[DefaultAgent<'_>]) -> Result<Vec<(String, Synced)>> {
        let (ids, kinds, settings) = columns(defaults);
        let rows = sqlx::query!(
            r#"-- store::agent::defaults::sync
            with file as (
                select * from unnest($2::uuid[], $3::text[], $4::jsonb[]) as d (id, kind, settings)),
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
            &ids,
            &kinds,
            &settings
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let became = match row.became.as_str() {
                    "created" => Synced::Created,
                    "updated" => Synced::Updated,
                    "kept" => Synced::Customised,
                    _ => Synced::Unchanged,
                };
                (row.kind, became)
            })
            .collect())
    }
}

impl OperatorStore<'_> {
    /// Resets the default agents of all tenants to the settings of the files, except those that were changed over
    /// the API; called when a server starts. Returns how many differed.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn follow_agent_files(self, defaults: &[DefaultAgent<'_>]) -> Result<u64> {
        let (_, kinds, settings) = columns(defaults);
        let done = sqlx::query!(
            "-- store::agent::defaults::follow_files
            update houston.agents a
               set settings = d.settings || jsonb_build_object(
                                      'description', a.settings->'description', 'guards', a.settings->'guards'),
                   version = a.version + 1, updated_at = statement_timestamp()
              from unnest($1::text[], $2::jsonb[]) as d (kind, settings)
             where a.is_default and a.kind = d.kind and not a.changed
               and a.settings - '{description,guards}'::text[] <> d.settings - 'description'",
            &kinds,
            &settings
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }
}
