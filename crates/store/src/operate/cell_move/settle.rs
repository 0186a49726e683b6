//! What a killed move left: its target has prepared a transaction, which is committed if the source has committed the move, and
//! taken back if not. And rows of users that the target may have already.

use std::time::Duration;

use houston_domain::cell::{CellName, Cells};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::{Names, Rows, all, column, connect, execute, ids, pipe, value};
use crate::error::Result;
use crate::handle::{ApiStore, Shared};
use crate::pool::Store;

/// Settles moves that were killed, of all pairs of these cells, if they have been prepared for so long. Returns how many. While
/// another process moves users of the same cell, it does nothing. A cell that is away does not keep those of the others.
///
/// # Errors
/// [`Error::Database`](crate::Error::Database) when a cell cannot be reached or refuses a statement; moves between the others
/// are settled.
pub async fn settle(stores: &Cells<ApiStore>, prepared_for: Duration) -> Result<usize> {
    let (mut settled, mut failed) = (0, None);
    for (to, target) in stores.named() {
        match settle_to(stores, (to, target), prepared_for).await {
            Ok(moves) => settled += moves,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(settled), Err)
}

/// Settles what one cell has prepared.
async fn settle_to(
    stores: &Cells<ApiStore>,
    (to_name, target): (&CellName, &ApiStore),
    prepared_for: Duration,
) -> Result<usize> {
    let (mut settled, mut failed) = (0, None);
    for (name, source) in stores.named() {
        if !left(target, name, prepared_for).await? {
            continue;
        }
        match settle_pair(Names { from: name, to: to_name }, source, target).await {
            Ok(moves) => settled += moves,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(settled), Err)
}

async fn settle_pair(between: Names<'_>, source: &Shared, target: &Shared) -> Result<usize> {
    let (mut from, mut to) = (connect(source).await?, connect(target).await?);
    let settled = match take_lock(&mut from).await {
        Ok(()) => settle_between(&mut from, &mut to, between).await,
        Err(error) if error.sqlstate().as_deref() == Some("55P03") => Ok(0),
        Err(error) => Err(error),
    };
    let _ = from.close().await;
    let _ = to.close().await;
    settled
}

/// Whether a cell has prepared a move from another for so long.
async fn left(target: &Shared, from: &CellName, prepared_for: Duration) -> Result<bool> {
    let left = sqlx::query_scalar(
        "-- store::cell_move::settle::left
        select exists (select from pg_prepared_xacts p
                        where p.database = current_database() and starts_with(p.gid, $1)
                          and p.prepared <= statement_timestamp() - make_interval(secs => $2))",
    );
    Ok(left.bind(start(from)).bind(prepared_for.as_secs_f64()).fetch_one(&target.pool).await?)
}

impl Store {
    /// The names of moves to this cell that have been prepared for a minute: no process settles them.
    pub async fn unsettled_moves(&self) -> Result<Vec<String>> {
        let names = sqlx::query_scalar(
            "-- store::cell_move::settle::unsettled
            select p.gid from pg_prepared_xacts p
             where p.database = current_database() and starts_with(p.gid, 'houston move from ')
               and p.prepared < statement_timestamp() - interval '1 minute' order by p.gid",
        );
        Ok(names.fetch_all(&self.pool).await?)
    }

    /// Makes the index by which moves from this cell find idempotency keys. It is there only while users are moved, because each
    /// request with a key writes to it. Without it, each piece of a move reads all keys.
    pub async fn begin_moves(&self) -> Result<()> {
        // One that was not finished is of no use.
        self.end_moves().await?;
        let index = "create index concurrently if not exists idempotency_keys_moving
                         on houston.idempotency_keys (right(resource_id::text, 4))";
        self.change_index(index).await
    }

    /// Drops the index of [`Self::begin_moves`], if it is there.
    pub async fn end_moves(&self) -> Result<()> {
        self.change_index("drop index concurrently if exists houston.idempotency_keys_moving").await
    }

    /// An index is made and dropped without stopping others, so it may wait for them.
    async fn change_index(&self, sql: &str) -> Result<()> {
        let mut connection = connect(self).await?;
        for sql in ["set lock_timeout = 0", "set statement_timeout = '1min'", sql] {
            execute(&mut connection, sql).await?;
        }
        let _ = connection.close().await;
        Ok(())
    }
}

/// Begins the transaction of a move at the source, or waits for the end of another: two never overlap. No user is created
/// meanwhile.
pub(super) async fn take_lock(source: &mut PgConnection) -> Result<()> {
    execute(source, "begin").await?;
    execute(source, "lock table houston.users in share row exclusive mode").await.map(drop)
}

/// Commits what the target has prepared if the source has committed it, and takes it back if not. The source must be locked
/// ([`take_lock`]): a move that goes on has not committed yet. A move that was taken back at the source leaves its version to the
/// next one, which may go to another cell; so the version alone does not decide.
pub(super) async fn settle_between(
    source: &mut PgConnection,
    target: &mut PgConnection,
    Names { from, to }: Names<'_>,
) -> Result<usize> {
    let start = start(from);
    let left = format!(
        "select gid from pg_prepared_xacts where database = current_database() and starts_with(gid, '{start}')"
    );
    let mut settled = 0;
    for name in column::<String>(target, &left).await? {
        let rest = name.strip_prefix(&start).unwrap_or_default();
        let Some(version) = rest.split(' ').next().and_then(|text| text.parse::<i64>().ok()) else {
            continue;
        };
        let is_gone = format!(
            "select count(*) from houston.moved_shards where version = {version} and not is_here and cell = '{to}'"
        );
        let end = if value::<i64>(source, &is_gone).await? > 0 { "commit" } else { "rollback" };
        execute(target, &format!("{end} prepared '{name}'")).await?;
        settled += 1;
    }
    Ok(settled)
}

/// The name of what a target has prepared. All databases of a Postgres server share such names, and another installation may have
/// a cell and a version of the same name; the target's `transaction` has its number alone.
pub(super) fn prepared(from: &CellName, version: i64, transaction: i64) -> String {
    format!("{}{version} {transaction}", start(from))
}

fn start(from: &CellName) -> String {
    format!("houston move from {from} ")
}

/// Makes the client tokens of the users at the target those of the source. The home has a copy of each, so the target may have
/// them, and what the source has stays: nothing of the users is found there by them.
pub(super) async fn move_tokens(
    source: &mut PgConnection,
    target: &mut PgConnection,
    rows: &Rows,
) -> Result<()> {
    let (of_users, columns) = (rows.tokens(), columns(source, "api_keys").await?);
    let ours = ids(source, &format!("select id from houston.api_keys where {of_users}")).await?;
    // Deleted where the users are, before they expired.
    execute(target, &format!("delete from houston.api_keys where {of_users} and id <> all ({ours})")).await?;
    let theirs = ids(target, &format!("select id from houston.api_keys where {of_users}")).await?;
    let out = format!(
        "copy (select {columns} from houston.api_keys where {of_users} and id <> all ({theirs})) to stdout (format binary)"
    );
    let into = format!("copy houston.api_keys ({columns}) from stdin (format binary)");
    pipe(source, &out, target, &into).await?;
    Ok(())
}

/// Deletes idempotency keys at the source that the target has for other requests: a key is compared within a cell only, and
/// there it is taken.
pub(super) async fn drop_present_keys(
    source: &mut PgConnection,
    target: &mut PgConnection,
    rows: &Rows,
) -> Result<()> {
    let ours =
        format!("select tenant_id, key from houston.idempotency_keys where {}", rows.idempotency_keys());
    let ours: Vec<(Uuid, String)> = all(source, &ours).await?;
    let (tenants, keys): (Vec<_>, Vec<_>) = ours.into_iter().unzip();
    if keys.is_empty() {
        return Ok(());
    }
    let present = sqlx::query_as(
        "-- store::cell_move::present::keys
        select k.tenant_id, k.key from houston.idempotency_keys k
          join unnest($1::uuid[], $2::text[]) as o (tenant_id, key) on o.tenant_id = k.tenant_id and o.key = k.key",
    )
    .bind(tenants)
    .bind(keys);
    let present: Vec<(Uuid, String)> = present.fetch_all(target).await?;
    let (tenants, keys): (Vec<_>, Vec<_>) = present.into_iter().unzip();
    if !keys.is_empty() {
        sqlx::query(
            "-- store::cell_move::present::drop_keys
            delete from houston.idempotency_keys k using unnest($1::uuid[], $2::text[]) as o (tenant_id, key)
             where o.tenant_id = k.tenant_id and o.key = k.key",
        )
        .bind(tenants)
        .bind(keys)
        .execute(source)
        .await?;
    }
    Ok(())
}

/// The columns of a table that are stored, quoted.
async fn columns(source: &mut PgConnection, table: &str) -> Result<String> {
    let names = format!(
        "select quote_ident(attname)::text from pg_attribute
          where attrelid = 'houston.{table}'::regclass and attnum > 0 and not attisdropped and attgenerated = ''
          order by attnum"
    );
    Ok(column::<String>(source, &names).await?.join(", "))
}
