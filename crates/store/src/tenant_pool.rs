//! [`TenantPool`]: the connections of a [`TenantStore`](crate::TenantStore), whose statements all run under
//! [`row_security`](crate::row_security).

use std::ops::{Deref, DerefMut};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use houston_domain::id::TenantId;
use houston_meter::Turn;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Describe, Either, Execute, Executor, PgConnection, Postgres, SqlSafeStr, SqlStr, Transaction};

use crate::handle::Shared;
use crate::row_security::entry;

/// Comes first in a transaction of [`TenantPool::begin_snapshot`].
const SNAPSHOT: &str = "set transaction isolation level repeatable read, read only; ";

/// Connections for what is done for one tenant. As an executor it runs a statement in a transaction of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TenantPool<'s> {
    shared: &'s Shared,
    /// The tenant that each transaction names; `None`: a worker or an operator asks, without row-level security.
    tenant: Option<TenantId>,
    /// For whom it is done: tenants take turns.
    whose: Option<TenantId>,
}

impl<'s> TenantPool<'s> {
    /// For a request of a tenant, or for an operator.
    pub(crate) fn new(shared: &'s Shared, tenant: Option<TenantId>) -> Self {
        Self { shared, tenant, whose: tenant }
    }

    /// For a run of a tenant.
    pub(crate) fn of_run(shared: &'s Shared, tenant: TenantId) -> Self {
        Self { shared, tenant: None, whose: Some(tenant) }
    }

    /// The tenant to name.
    async fn named(self) -> sqlx::Result<Option<TenantId>> {
        match self.tenant {
            Some(tenant) if self.shared.has_row_security().await? => Ok(Some(tenant)),
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
        let transaction = self.shared.pool.begin_with(begin.into_sql_str()).await?;
        Ok(TenantTransaction { transaction, _turn: turn })
    }

    async fn turn(self) -> sqlx::Result<Option<Turn>> {
        match self.whose {
            Some(tenant) => self.shared.pool.turn(tenant).await.map(Some),
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

    /// A connection for some statements. What they write is kept only by [`TenantConnection::done`]; mostly
    /// [`with_connection`](crate::tenant_pool::with_connection) calls it.
    pub(crate) async fn connection(self) -> sqlx::Result<TenantConnection> {
        Ok(match self.named().await? {
            Some(tenant) => TenantConnection::Secured(self.begun(entry("", tenant.0)).await?),
            None => {
                let turn = self.turn().await?;
                let pool = &self.shared.pool;
                let is_request = self.tenant.is_some();
                let connection =
                    if is_request { pool.acquire_answering().await? } else { pool.acquire().await? };
                TenantConnection::Free { connection, _turn: turn }
            }
        })
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

/// See [`TenantPool::connection`].
#[derive(Debug)]
pub(crate) enum TenantConnection {
    Free { connection: PoolConnection<Postgres>, _turn: Option<Turn> },
    Secured(TenantTransaction),
}

impl TenantConnection {
    /// Keeps what was written.
    pub(crate) async fn done(self) -> sqlx::Result<()> {
        match self {
            Self::Free { .. } => Ok(()),
            Self::Secured(transaction) => transaction.commit().await,
        }
    }
}

impl Deref for TenantConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Free { connection, .. } => connection,
            Self::Secured(transaction) => transaction,
        }
    }
}

impl DerefMut for TenantConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Free { connection, .. } => connection,
            Self::Secured(transaction) => transaction,
        }
    }
}

/// Calls a function that takes a connection, on one of a [`TenantPool`]; returns early with its error.
macro_rules! with_connection {
    ($pool:expr, |$connection:ident| $call:expr) => {{
        let mut held = $pool.connection().await?;
        let $connection = &mut *held;
        let result = $call.await?;
        held.done().await?;
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
                let all: Vec<_> = self.shared.pool.fetch_many(query).try_collect().await?;
                return Ok(stream::iter(all.into_iter().map(Ok)).boxed());
            };
            let mut transaction = self.begun(entry("", tenant.0)).await?;
            let all: Vec<_> = transaction.fetch_many(query).try_collect().await?;
            transaction.commit().await?;
            Ok::<_, sqlx::Error>(stream::iter(all.into_iter().map(Ok)).boxed())
        };
        stream::once(all).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let Some(tenant) = self.named().await? else {
                let _turn = self.turn().await?;
                return self.shared.pool.fetch_optional(query).await;
            };
            let mut transaction = self.begun(entry("", tenant.0)).await?;
            let row = transaction.fetch_optional(query).await?;
            transaction.commit().await?;
            Ok(row)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'p: 'e,
    {
        (&self.shared.pool).prepare_with(sql, parameters)
    }
    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'p: 'e,
    {
        (&self.shared.pool).describe(sql)
    }
}
