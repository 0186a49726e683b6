//! Row-level security: a request of a tenant reads and writes in transactions that name the tenant, under a role for which all
//! other rows do not exist. So a query whose condition on `tenant_id` was forgotten finds nothing of others.
//!
//! The role is `houston_api`: no superuser, owner of nothing. The login of a process takes it with `set_config(…, true)`, so
//! until the end of the transaction and in the same round trip as `begin`: a pooler that shares connections between
//! transactions is no danger. What it may do is written by `row_security.sql`, after the migrations.
//!
//! Outside of it are statements that work for several tenants at once, and name one per row: batches of posts, creations,
//! plans, claims and streams; the last statements of a request to erase, which hide rows from their own tenant; writing files of
//! workspaces to their folder; and runs, which are of no request. Each says so where it is.
//!
//! The connections of a [`TenantStore`](crate::TenantStore) are a `TenantPool`, whose statements all run under it.
//!
//! It stops a query that forgot its tenant, not one into which a stranger wrote SQL: `reset role` ends it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use houston_domain::id::TenantId;
use houston_meter::Turn;
use sqlx::postgres::{PgPool, PgQueryResult, PgRow};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Either, Execute, Executor, PgConnection, Postgres, SqlSafeStr, Transaction,
};
use tokio::sync::OnceCell;

use crate::connections::{Connections, connect_options_of, rest_of_executor};
use crate::error::Result;

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

/// Whether requests of tenants are under it: read once, at the first of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<OnceCell<bool>>);

impl Known {
    async fn is_on(&self, pool: &Connections) -> sqlx::Result<bool> {
        let read = self.0.get_or_try_init(async || {
            let found = read(pool).await?;
            if let Some(todo) = found.todo() {
                tracing::warn!(todo, "row-level security is {found}: only the queries keep tenants apart");
            }
            Ok(found == RowSecurity::On)
        });
        read.await.copied()
    }
}

/// Applies `row_security.sql`, with a connection of its own.
pub(crate) async fn apply(sessions: &PgPool) -> Result<()> {
    // Another process that migrates may take longer than a query usually may.
    let settings = [("statement_timeout", "300s"), ("lock_timeout", "10s")];
    let mut connection = connect_options_of(sessions).options(settings).connect().await?;
    sqlx::raw_sql(APPLY).execute(&mut connection).await?;
    Ok(sqlx::Connection::close(connection).await?)
}

/// Whether requests are under row-level security of this database.
pub(crate) async fn read(pool: &Connections) -> sqlx::Result<RowSecurity> {
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
fn entry(first: &'static str, tenant: uuid::Uuid) -> AssertSqlSafe<String> {
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

/// Comes first in a transaction of [`TenantPool::begin_snapshot`].
const SNAPSHOT: &str = "set transaction isolation level repeatable read, read only; ";

/// Connections for what is done for one tenant. As an executor it runs a statement in a transaction of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TenantPool<'s> {
    pub(crate) pool: &'s Connections,
    pub(crate) row_security: &'s Known,
    /// The tenant that each transaction names; `None`: a worker or an operator asks, without row-level security.
    pub(crate) tenant: Option<TenantId>,
    /// For whom it is done: tenants take turns.
    pub(crate) whose: Option<TenantId>,
}

impl TenantPool<'_> {
    /// The tenant to name.
    async fn named(self) -> sqlx::Result<Option<TenantId>> {
        match self.tenant {
            Some(tenant) if self.row_security.is_on(self.pool).await? => Ok(Some(tenant)),
            _ => Ok(None),
        }
    }

    /// Begins a transaction.
    pub(crate) async fn begin(self) -> sqlx::Result<TenantTransaction> {
        match self.named().await? {
            Some(tenant) => self.begun(entry("", tenant.0)).await,
            None => self.begun("begin").await,
        }
    }

    async fn begun(self, begin: impl SqlSafeStr) -> sqlx::Result<TenantTransaction> {
        let turn = self.turn().await?;
        let transaction = self.pool.begin_with(begin.into_sql_str()).await?;
        Ok(TenantTransaction { transaction, _turn: turn })
    }

    async fn turn(self) -> sqlx::Result<Option<Turn>> {
        match self.whose {
            Some(tenant) => self.pool.turn(tenant).await.map(Some),
            None => Ok(None),
        }
    }

    /// Begins a transaction that reads what is committed now, whatever is committed later.
    pub(crate) async fn begin_snapshot(self) -> sqlx::Result<TenantTransaction> {
        match self.named().await? {
            Some(tenant) => self.begun(entry(SNAPSHOT, tenant.0)).await,
            None => self.begun("begin isolation level repeatable read read only").await,
        }
    }
}

/// See [`TenantPool::begin`].
#[derive(Debug)]
pub(crate) struct TenantTransaction {
    transaction: Transaction<'static, Postgres>,
    /// Given back after the connection.
    _turn: Option<Turn>,
}

impl TenantTransaction {
    pub(crate) async fn commit(self) -> sqlx::Result<()> {
        self.transaction.commit().await
    }

    pub(crate) async fn rollback(self) -> sqlx::Result<()> {
        self.transaction.rollback().await
    }
}

impl Deref for TenantTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.transaction
    }
}

impl DerefMut for TenantTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}

/// Calls a function that takes a connection, in a transaction of a [`TenantPool`]; returns early with its error.
macro_rules! with_connection {
    ($pool:expr, |$connection:ident| $call:expr) => {{
        let mut tx = $pool.begin().await?;
        let $connection = &mut *tx;
        let result = $call.await?;
        tx.commit().await?;
        result
    }};
}
pub(crate) use with_connection;

impl<'p> Executor<'p> for &'p TenantPool<'_> {
    type Database = Postgres;

    /// The rows come when all of them are read.
    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let all = async move {
            let Some(tenant) = self.named().await? else {
                let _turn = self.turn().await?;
                let all: Vec<_> = self.pool.fetch_many(query).try_collect().await?;
                return Ok(stream::iter(all.into_iter().map(Ok)).boxed());
            };
            let mut transaction = self.begun(entry("", tenant.0)).await?;
            let all: Vec<_> = transaction.fetch_many(query).try_collect().await?;
            transaction.commit().await?;
            Ok::<_, sqlx::Error>(stream::iter(all.into_iter().map(Ok)).boxed())
        };
        stream::once(all).try_flatten().boxed()
    }

    rest_of_executor!('p);
}
