//! Tool sources: where the tools of a tenant's own come from. A run reads their summary with its context.

use chrono::{DateTime, Utc};
use houston_domain::id::{TenantId, UserId};
use houston_domain::tool_source::{MAX_SOURCES, SourceSummary, SourceType};
use sqlx::PgConnection;

use crate::bound;
use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::mcp_server::ServerOwner;
use crate::statement::Statement as _;

/// A source as people see it: its secrets are not readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSource {
    /// Unique among the sources of its type.
    pub name: String,
    /// As it was sent.
    pub document: String,
    /// The kinds whose agents are offered all of its tools.
    pub kinds: Vec<String>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The names of its secrets.
    pub secret_names: Vec<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// A source to be stored in the place of the one with its type and name.
#[derive(Debug, Clone, Copy)]
pub struct NewSource<'a> {
    /// What it is.
    pub source: SourceType,
    /// Unique among the sources of its type.
    pub name: &'a str,
    /// As it was sent.
    pub document: &'a str,
    /// The kinds whose agents are offered all of its tools.
    pub kinds: &'a [String],
    /// The names of its tools.
    pub tools: &'a [String],
    /// The names of its secrets, and an object of them, sealed; `None`: those that are stored stay.
    pub secrets: Option<(&'a [String], Option<&'a [u8]>)>,
}

/// A source with what a run needs of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSource {
    /// As it was sent.
    pub document: String,
    /// An object of its secrets, sealed; `None`: it has none.
    pub sealed: Option<Vec<u8>>,
    /// Changes with the document and its secrets: that of the summary, unless the source has been changed since.
    pub hash: String,
}

/// Whether a source was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// It is.
    Done(ToolSource),
    /// A tool of the same name is among those of this other source: its type and name, and the name of the tool.
    Taken {
        /// `endpoints/crm`.
        source: String,
        /// The tool.
        tool: String,
    },
}

impl TenantStore<'_> {
    /// The sources of a type, by name.
    pub async fn tool_sources(self, source: SourceType) -> Result<Vec<ToolSource>> {
        let rows = sqlx::query_as!(
            ToolSource,
            "-- store::tool_source::list
            select name, document, kinds, tools, secret_names, created_at, updated_at from houston.tool_sources
             where tenant_id = $1 and type = $2 order by name",
            self.tenant.0,
            source.as_str()
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// One source.
    pub async fn tool_source(self, source: SourceType, name: &str) -> Result<ToolSource> {
        sqlx::query_as!(
            ToolSource,
            "-- store::tool_source::get
            select name, document, kinds, tools, secret_names, created_at, updated_at from houston.tool_sources
             where tenant_id = $1 and type = $2 and name = $3",
            self.tenant.0,
            source.as_str(),
            name
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(NOT_FOUND)
    }

    /// The names of the tools of all sources and MCP servers of the tenant.
    pub async fn own_tools(self) -> Result<Vec<String>> {
        let rows = sqlx::query_scalar!(
            r#"-- store::tool_source::tools
            select t.name as "name!" from houston.tool_sources s cross join lateral unnest(s.tools) t (name)
             where s.tenant_id = $1
            union all
            select t.name from houston.mcp_servers s cross join lateral unnest(s.tools) t (name)
             where s.tenant_id = $1 and s.owner_id = $1"#,
            self.tenant.0
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Stores a source, from the next run on.
    ///
    /// # Errors
    /// [`Error::Full`] when the tenant has the maximum number of sources.
    pub async fn put_tool_source(self, new: &NewSource<'_>) -> Result<Placed> {
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", self.tenant.0).await?;
        let others = sqlx::query!(
            r#"-- store::tool_source::others
            select count(*) as "count!",
                   (select s.type || '/' || s.name || ':' || t.name
                      from houston.tool_sources s cross join lateral unnest(s.tools) t (name)
                     where s.tenant_id = $1 and (s.type, s.name) <> ($2, $3) and t.name = any($4) limit 1) as taken
              from houston.tool_sources o where o.tenant_id = $1 and (o.type, o.name) <> ($2, $3)"#,
            self.tenant.0,
            new.source.as_str(),
            new.name,
            new.tools
        )
        .fetch_one(&mut *tx)
        .await?;
        if let Some((source, tool)) = others.taken.as_deref().and_then(|taken| taken.rsplit_once(':')) {
            return Ok(Placed::Taken { source: source.to_owned(), tool: tool.to_owned() });
        }
        if others.count >= MAX_SOURCES {
            return Err(Error::Full { what: "tool sources of a tenant", limit: MAX_SOURCES });
        }
        let (names, sealed) = new.secrets.unwrap_or_default();
        let stored = sqlx::query_as!(
            ToolSource,
            "-- store::tool_source::put
            insert into houston.tool_sources as s
                   (tenant_id, type, name, document, kinds, tools, secret_names, sealed)
            values ($1, $2, $3, $4, $5, $6, $7, $8)
            on conflict (tenant_id, type, name) do update
               set document = excluded.document, kinds = excluded.kinds, tools = excluded.tools,
                   secret_names = case when $9 then excluded.secret_names else s.secret_names end,
                   sealed = case when $9 then excluded.sealed else s.sealed end, updated_at = statement_timestamp()
            returning name, document, kinds, tools, secret_names, created_at, updated_at",
            self.tenant.0,
            new.source.as_str(),
            new.name,
            new.document,
            new.kinds,
            new.tools,
            names,
            sealed,
            new.secrets.is_some()
        )
        .fetch_one(&mut *tx)
        .await?;
        summarise(&mut tx, self.tenant).await?;
        tx.commit().await?;
        Ok(Placed::Done(stored))
    }

    /// Deletes a source, from the next run on.
    pub async fn delete_tool_source(self, source: SourceType, name: &str) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", self.tenant.0).await?;
        sqlx::query!(
            "-- store::tool_source::delete
            delete from houston.tool_sources where tenant_id = $1 and type = $2 and name = $3",
            self.tenant.0,
            source.as_str(),
            name
        )
        .run_or(&mut *tx, NOT_FOUND)
        .await?;
        summarise(&mut tx, self.tenant).await?;
        Ok(tx.commit().await?)
    }
}

const NOT_FOUND: Error = Error::NotFound { what: "tool source" };

/// Writes what runs read of the sources and MCP servers of a tenant.
pub(crate) async fn summarise(connection: &mut PgConnection, tenant: TenantId) -> Result<()> {
    sqlx::query!(
        "-- store::tool_source::summarise
        update houston.tenants
           set tool_sources = (
               select jsonb_agg(jsonb_build_object(
                          'type', s.type, 'name', s.name, 'kinds', s.kinds,
                          'hash', encode(sha256(convert_to(s.text, 'UTF8') || coalesce(s.sealed, '')), 'hex'))
                      order by s.type, s.name)
                 from (select o.type, o.name, to_jsonb(o.kinds) as kinds, o.document as text, o.sealed
                         from houston.tool_sources o where o.tenant_id = $1
                       union all
                       select 'mcp_server', m.name, m.settings->'kinds', m.url || m.settings::text || m.pins::text,
                              m.sealed
                         from houston.mcp_servers m
                        where m.tenant_id = $1 and m.owner_id = $1 and m.tools <> '{}') s)
         where id = $1",
        tenant.0
    )
    .run(connection)
    .await
}

impl RunStore {
    /// What a run needs of a source that its process has not compiled; `None`: it was deleted.
    pub async fn tool_source(
        &self,
        tenant: TenantId,
        source: &SourceSummary,
    ) -> Result<Option<StoredSource>> {
        let SourceSummary { source: kind, name, user, .. } = source;
        if *kind == SourceType::McpServer {
            let owner = user.map_or(ServerOwner::Tenant, |user| ServerOwner::User(UserId(user)));
            return self.mcp_source(tenant, owner, name).await;
        }
        let row = sqlx::query_as!(
            StoredSource,
            r#"-- store::tool_source::of_run
            select document, sealed,
                   encode(sha256(convert_to(document, 'UTF8') || coalesce(sealed, '')), 'hex') as "hash!"
              from houston.tool_sources where tenant_id = $1 and type = $2 and name = $3"#,
            tenant.0,
            kind.as_str(),
            name
        );
        Ok(row.fetch_optional(&self.pool).await?)
    }
}
