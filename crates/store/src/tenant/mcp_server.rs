//! MCP servers of tenants and users. Requests write them; runs read their summaries with their context. Approved tools that a server
//! lists with another definition are not offered from the next run on.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::id::{TenantId, UserId};
use houston_domain::mcp_server::names::of_settings;
use houston_domain::mcp_server::pin::{ListedTool, NotApproved, Pin, approve, withhold};
use houston_domain::mcp_server::{MAX_SERVERS, ServerSettings};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::bound;
use crate::error::{Error, Result};
use crate::handle::{RunStore, TenantStore};
use crate::statement::Statement as _;
use crate::tool_source::{StoredSource, summarise};

/// Whose something is that a tenant has for all its users, or a user alone: a server, a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOwner {
    /// The tenant's, for all its users.
    Tenant,
    /// A user's.
    User(UserId),
}

impl ServerOwner {
    pub(crate) fn user(self) -> Option<Uuid> {
        match self {
            Self::Tenant => None,
            Self::User(UserId(id)) => Some(id),
        }
    }

    /// The id of the owner.
    pub fn id(self, tenant: TenantId) -> Uuid {
        self.user().unwrap_or(tenant.0)
    }
}

/// A server as people see it, with its secrets sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Unique among the servers of its owner.
    pub name: String,
    /// Its address.
    pub url: String,
    /// What its owner says of it.
    pub settings: ServerSettings,
    /// The names of its headers.
    pub header_names: Vec<String>,
    /// An object of its headers, sealed; `None`: it has none.
    pub sealed: Option<Vec<u8>>,
    /// The approved tools, by the names that the server gives them.
    pub pins: BTreeMap<String, Pin>,
    /// The names under which tools are offered.
    pub tools: Vec<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// A server to be stored in the place of the one with its owner and name.
#[derive(Debug, Clone, Copy)]
pub struct NewServer<'a> {
    /// The tenant or the user that it belongs to.
    pub owner: ServerOwner,
    /// Unique among the servers of its owner.
    pub name: &'a str,
    /// Its address. If it is another one than before, approvals, and headers that are not given, are deleted.
    pub url: &'a str,
    /// What its owner says of it.
    pub settings: &'a ServerSettings,
    /// The names of its headers, and an object of them, sealed; `None`: those that are stored stay.
    pub headers: Option<(&'a [String], Option<&'a [u8]>)>,
}

/// A statement that ends with servers, between `select` or `returning` and the rest.
macro_rules! query_servers {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + r#"
                   name, url, settings as "settings: Json<ServerSettings>", header_names, sealed, pins as "pins:
                   Json<BTreeMap<String, Pin>>", tools, created_at, updated_at
            "# + $after
            $(, $parameter)*
        )
        .map(|row| McpServer {
            name: row.name,
            url: row.url,
            settings: row.settings.0,
            header_names: row.header_names,
            sealed: row.sealed,
            pins: row.pins.0,
            tools: row.tools,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    };
}

const NOT_FOUND: Error = Error::NotFound { what: "MCP server" };

impl TenantStore<'_> {
    /// The servers of an owner, by name.
    pub async fn mcp_servers(self, owner: ServerOwner) -> Result<Vec<McpServer>> {
        let rows = query_servers!(
            "-- store::mcp_server::list
            select",
            "from houston.mcp_servers where tenant_id = $1 and owner_id = $2 order by name",
            self.tenant.0,
            owner.id(self.tenant)
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// One server.
    pub async fn mcp_server(self, owner: ServerOwner, name: &str) -> Result<McpServer> {
        let row = query_servers!(
            "-- store::mcp_server::get
            select",
            "from houston.mcp_servers where tenant_id = $1 and owner_id = $2 and name = $3",
            self.tenant.0,
            owner.id(self.tenant),
            name
        );
        row.fetch_optional(&self.pool).await?.ok_or(NOT_FOUND)
    }

    /// Stores a server, from the next run on. The tools that were approved stay approved if the address is the same.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such user, [`Error::Full`] when the owner has the maximum number of
    /// other servers.
    pub async fn put_mcp_server(self, new: &NewServer<'_>) -> Result<McpServer> {
        let (tenant, owner) = (self.tenant, new.owner.id(self.tenant));
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", owner).await?;
        let before = sqlx::query!(
            r#"-- store::mcp_server::before
            select (select count(*) from houston.mcp_servers o where o.tenant_id = $1 and o.owner_id = $2
                       and o.name <> $3) as "others!",
                   (select m.pins from houston.mcp_servers m where m.tenant_id = $1 and m.owner_id = $2
                       and m.name = $3 and m.url = $4) as "pins: Json<BTreeMap<String, Pin>>""#,
            tenant.0,
            owner,
            new.name,
            new.url
        )
        .fetch_one(&mut *tx)
        .await?;
        if before.others >= MAX_SERVERS {
            return Err(Error::Full { what: "MCP servers of one owner", limit: MAX_SERVERS });
        }
        let pins = before.pins.map(|pins| pins.0).unwrap_or_default();
        let tools = offered(new.name, new.settings, &pins);
        let (header_names, sealed) = new.headers.unwrap_or_default();
        let stored = query_servers!(
            "-- store::mcp_server::put
            insert into houston.mcp_servers as s
                   (tenant_id, user_id, owner_id, name, url, settings, header_names, sealed, tools)
            select $1, $2::uuid, coalesce($2, $1), $3, $4, $5, $6, $7, $8
             where $2 is null or exists (select from houston.users u where u.id = $2 and u.tenant_id = $1)
            on conflict (owner_id, name) do update
               set url = excluded.url, settings = excluded.settings, tools = excluded.tools,
                   pins = case when s.url = excluded.url then s.pins else '{}' end,
                   header_names = case when $9 or s.url <> excluded.url then excluded.header_names
                                       else s.header_names end,
                   sealed = case when $9 or s.url <> excluded.url then excluded.sealed else s.sealed end,
                   updated_at = statement_timestamp()
            returning",
            "",
            tenant.0,
            new.owner.user(),
            new.name,
            new.url,
            Json(new.settings) as Json<&ServerSettings>,
            header_names,
            sealed,
            &tools,
            new.headers.is_some()
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "user" })?;
        summarise_owner(&mut tx, tenant, new.owner).await?;
        tx.commit().await?;
        Ok(stored)
    }

    /// Approves tools that a person has seen, from the next run on. `listed`: what the server at `url` lists.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the owner has no such server at this address, [`Error::Database`] when Postgres cannot be
    /// reached or refuses the statement. [`NotApproved`] when a tool is not what the server lists; then none is approved.
    pub async fn approve_mcp_tools(
        self,
        owner: ServerOwner,
        name: &str,
        url: &str,
        listed: &[ListedTool],
        approved: &BTreeMap<String, String>,
    ) -> Result<std::result::Result<McpServer, NotApproved>> {
        let (tenant, id) = (self.tenant, owner.id(self.tenant));
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", id).await?;
        let (settings, pins) = pins(&mut tx, tenant, (id, name), Some(url)).await?.ok_or(NOT_FOUND)?;
        let pins = match approve(pins, listed, approved) {
            Ok(pins) => pins,
            Err(refused) => return Ok(Err(refused)),
        };
        let tools = offered(name, &settings, &pins);
        let stored = query_servers!(
            "-- store::mcp_server::approve
            update houston.mcp_servers set pins = $4, tools = $5, updated_at = statement_timestamp()
             where tenant_id = $1 and owner_id = $2 and name = $3
            returning",
            "",
            tenant.0,
            id,
            name,
            Json(&pins) as Json<&BTreeMap<String, Pin>>,
            &tools
        )
        .fetch_one(&mut *tx)
        .await?;
        summarise_owner(&mut tx, tenant, owner).await?;
        tx.commit().await?;
        Ok(Ok(stored))
    }

    /// Deletes a server and its headers, from the next run on.
    pub async fn delete_mcp_server(self, owner: ServerOwner, name: &str) -> Result<()> {
        let (tenant, id) = (self.tenant, owner.id(self.tenant));
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", id).await?;
        sqlx::query!(
            "-- store::mcp_server::delete
            with accounts as (
                delete from houston.mcp_accounts where tenant_id = $1 and owner_id = $2 and server = $3),
            logins as (
                delete from houston.mcp_logins where tenant_id = $1 and owner_id = $2 and server = $3)
            delete from houston.mcp_servers where tenant_id = $1 and owner_id = $2 and name = $3",
            tenant.0,
            id,
            name
        )
        .run_or(&mut *tx, NOT_FOUND)
        .await?;
        summarise_owner(&mut tx, tenant, owner).await?;
        Ok(tx.commit().await?)
    }
}

impl RunStore {
    /// What a run needs of a server that its process has not set up; `None`: it was deleted. The document is an object of
    /// `url`, `settings` and `pins`.
    pub(crate) async fn mcp_source(
        &self,
        tenant: TenantId,
        owner: ServerOwner,
        name: &str,
    ) -> Result<Option<StoredSource>> {
        let row = sqlx::query_as!(
            StoredSource,
            r#"-- store::mcp_server::of_run
            select jsonb_build_object('url', url, 'settings', settings, 'pins', pins)::text as "document!", sealed,
                   encode(sha256(convert_to(url || settings::text || pins::text, 'UTF8') || coalesce(sealed, '')),
                          'hex') as "hash!"
              from houston.mcp_servers where tenant_id = $1 and owner_id = $2 and name = $3"#,
            tenant.0,
            owner.id(tenant),
            name
        );
        Ok(row.fetch_optional(&self.pool).await?)
    }

    /// Withholds tools until a person approves them again, unless another definition was approved meanwhile. `changed`: the
    /// hashes of the approved definitions, by the names that the server gives the tools. Says whether one of them was offered.
    pub async fn withhold_mcp_tools(
        &self,
        tenant: TenantId,
        owner: ServerOwner,
        name: &str,
        changed: &BTreeMap<String, String>,
    ) -> Result<bool> {
        let id = owner.id(tenant);
        let mut tx = self.pool.begin().await?;
        bound::lock(&mut tx, "tool sources", id).await?;
        let Some((settings, mut pins)) = pins(&mut tx, tenant, (id, name), None).await? else {
            return Ok(false);
        };
        let withheld = changed.iter().filter(|(tool, sha256)| withhold(&mut pins, tool, sha256)).count();
        if withheld == 0 {
            return Ok(false);
        }
        let tools = offered(name, &settings, &pins);
        sqlx::query!(
            "-- store::mcp_server::withheld::store
            update houston.mcp_servers set pins = $4, tools = $5
             where tenant_id = $1 and owner_id = $2 and name = $3",
            tenant.0,
            id,
            name,
            Json(&pins) as Json<&BTreeMap<String, Pin>>,
            &tools
        )
        .execute(&mut *tx)
        .await?;
        summarise_owner(&mut tx, tenant, owner).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// What the owner says of a server, and its approved tools; with `url`, only if it is at this address.
async fn pins(
    connection: &mut PgConnection,
    tenant: TenantId,
    (owner, name): (Uuid, &str),
    url: Option<&str>,
) -> Result<Option<(ServerSettings, BTreeMap<String, Pin>)>> {
    let row = sqlx::query!(
        r#"-- store::mcp_server::pins
        select settings as "settings: Json<ServerSettings>", pins as "pins: Json<BTreeMap<String, Pin>>"
          from houston.mcp_servers
         where tenant_id = $1 and owner_id = $2 and name = $3 and ($4::text is null or url = $4)"#,
        tenant.0,
        owner,
        name,
        url
    )
    .map(|row| (row.settings.0, row.pins.0));
    Ok(row.fetch_optional(connection).await?)
}

fn offered(name: &str, settings: &ServerSettings, pins: &BTreeMap<String, Pin>) -> Vec<String> {
    of_settings(name, settings, pins).into_iter().map(|(_, name)| name).collect()
}

/// Writes what runs read of the servers of an owner.
async fn summarise_owner(connection: &mut PgConnection, tenant: TenantId, owner: ServerOwner) -> Result<()> {
    let ServerOwner::User(UserId(user)) = owner else { return summarise(connection, tenant).await };
    sqlx::query!(
        "-- store::mcp_server::summarise
        update houston.users
           set tool_sources = (
               select jsonb_agg(jsonb_build_object(
                          'type', 'mcp_server', 'name', s.name, 'user', s.user_id, 'kinds', s.settings->'kinds',
                          'hash', encode(sha256(convert_to(s.url || s.settings::text || s.pins::text, 'UTF8')
                                                || coalesce(s.sealed, '')), 'hex'))
                      order by s.name)
                 from houston.mcp_servers s where s.tenant_id = $1 and s.owner_id = $2 and s.tools <> '{}')
         where tenant_id = $1 and id = $2",
        tenant.0,
        user
    )
    .run(connection)
    .await
}
