//! Row-level security: a request of a tenant reads and writes in transactions that name the tenant, under a role for which all
//! other rows do not exist. So a query whose condition on `tenant_id` was forgotten finds nothing of others.
//!
//! The role is `houston_api`: no superuser, owner of nothing. The login of a process takes it with `set_config(…, true)`, so
//! until the end of the transaction and in the same round trip as `begin`: a pooler that shares connections between
//! transactions is no danger. What it may do is written by `row_security.sql`, after the migrations.
//!
//! Outside of it are statements that work for several tenants at once, and name one per row: batches of posts, creations,
//! claims and streams; the last statements of a request to erase, which hide rows from their own tenant; writing files of
//! workspaces to their folder; and runs, which are of no request. Each says so where it is.
//!
//! It stops a query that forgot its tenant, not one into which a stranger wrote SQL: `reset role` ends it.

use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection};

use crate::connections::Connections;
use crate::error::Result;
use crate::handle::Shared;
use crate::pool::{Store, connect_options_of};

/// Creates the roles if it may, and gives each table of a tenant its policies and the role its rights. Commits table by table,
/// and changes nothing that is already so.
const APPLY: &str = include_str!("row_security.sql");

/// Whether requests are under row-level security, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSecurity {
    /// They are.
    On,
    /// The role does not exist: who migrated may not create roles.
    NoRole,
    /// The login may not take the role.
    NotMember,
    /// The role exists, but may not use the tables, or some have no policy.
    NotApplied,
}

impl RowSecurity {
    /// What to do, if something is to be done.
    #[must_use]
    pub fn todo(self) -> Option<&'static str> {
        match self {
            Self::On => None,
            Self::NoRole => Some(
                "let an administrator of Postgres run `create role houston_api; create role houston_app; grant houston_api \
                 to LOGIN` with the login of DATABASE_URL; then run `houston migrate`, and start `houston serve` again",
            ),
            Self::NotMember => Some(
                "let an administrator of Postgres run `grant houston_api to LOGIN` with the login of DATABASE_URL, and start \
                 `houston serve` again",
            ),
            Self::NotApplied => {
                Some("run `houston migrate` as the owner of the tables, and start `houston serve` again")
            }
        }
    }
}

impl std::fmt::Display for RowSecurity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::On => "each request sees the rows of its tenant only",
            Self::NoRole => "off: the role houston_api does not exist",
            Self::NotMember => "off: the login may not take the role houston_api",
            Self::NotApplied => "off: the role houston_api may not use the tables, or some have no policy",
        })
    }
}

impl Store {
    /// Whether requests of tenants are under row-level security.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn row_security(&self) -> Result<RowSecurity> {
        Ok(read(&self.pool).await?)
    }
}

impl Shared {
    /// Whether requests of tenants are under row-level security; read once, at the first of them.
    pub(crate) async fn has_row_security(&self) -> sqlx::Result<bool> {
        let read = self.row_security.get_or_try_init(async || {
            let found = read(&self.pool).await?;
            if let Some(todo) = found.todo() {
                tracing::warn!(todo, "row-level security is {found}: only the queries keep tenants apart");
            }
            Ok(found == RowSecurity::On)
        });
        read.await.copied()
    }

    /// Applies `row_security.sql`.
    pub(crate) async fn apply_row_security(&self) -> Result<()> {
        // Another process that migrates may take longer than a query usually may.
        let settings = [("statement_timeout", "300s"), ("lock_timeout", "10s")];
        let mut connection = connect_options_of(&self.sessions).options(settings).connect().await?;
        sqlx::raw_sql(APPLY).execute(&mut connection).await?;
        Ok(sqlx::Connection::close(connection).await?)
    }
}

async fn read(pool: &Connections) -> sqlx::Result<RowSecurity> {
    // Not `query!`: it would be one of few reasons to describe system catalogues in `.sqlx`.
    let (exists, is_member, is_applied): (bool, bool, bool) = sqlx::query_as(
        "-- store::row_security::read
        select r.oid is not null,
               coalesce(pg_has_role(current_user, r.oid, case when current_setting('server_version_num')::integer >= 160000
                                                              then 'SET' else 'MEMBER' end), false),
               coalesce(has_schema_privilege(r.oid, n.oid, 'usage'), false) and not exists (
                   select from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
                    where c.relnamespace = n.oid and c.relkind in ('r', 'p')
                      and not (c.relrowsecurity and has_table_privilege(r.oid, c.oid, 'select')))
          from pg_namespace n left join pg_roles r on r.rolname = 'houston_api'
         where n.nspname = 'houston'",
    )
    .fetch_one(pool)
    .await?;
    Ok(match (exists, is_member, is_applied) {
        (false, ..) => RowSecurity::NoRole,
        (_, false, _) => RowSecurity::NotMember,
        (.., false) => RowSecurity::NotApplied,
        _ => RowSecurity::On,
    })
}

/// The statements that begin a transaction of a tenant: one text, one round trip. `first` comes before them.
///
/// `begin` is the last: until then Postgres has a transaction of its own for the text, which `begin` goes on with, and which has
/// ended when one of the statements fails. With `begin` at first, a login that may no longer take the role would leave its
/// connection to others in a failed transaction, of which sqlx knows nothing.
pub(crate) fn entry(first: &'static str, tenant: uuid::Uuid) -> AssertSqlSafe<String> {
    // `set_config` and not `set`, of which `pg_stat_statements` would keep one text for each tenant. An id has hex digits and
    // dashes only.
    AssertSqlSafe(format!(
        "{first}select set_config('role', 'houston_api', true), set_config('houston.tenant', '{tenant}', true); begin"
    ))
}

/// Goes on as the login, for what makes rows invisible to their own tenant. The statements that follow name the tenant.
pub(crate) async fn leave(connection: &mut PgConnection) -> Result<()> {
    sqlx::raw_sql("-- store::row_security::leave\nset local role none").execute(connection).await?;
    Ok(())
}
