//! What a killed move left: its target has prepared a transaction, which is committed if the source has committed the move, and
//! taken back if not.

use std::time::Duration;

use houston_domain::cell::{CellName, Cells};
use sqlx::{Connection as _, PgConnection, Row as _};

use super::{Names, all, connect, execute, scalar};
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
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn unsettled_moves(&self) -> Result<Vec<String>> {
        let names = sqlx::query_scalar(
            "-- store::cell_move::settle::unsettled
            select p.gid from pg_prepared_xacts p
             where p.database = current_database() and starts_with(p.gid, 'houston move from ')
               and p.prepared < statement_timestamp() - interval '1 minute' order by p.gid",
        );
        Ok(names.fetch_all(&self.pool).await?)
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
    let left = all(
        target,
        &format!(
            "select gid from pg_prepared_xacts where database = current_database() and starts_with(gid, '{start}')"
        ),
    )
    .await?;
    let mut settled = 0;
    for row in left {
        let name: String = row.try_get(0)?;
        let rest = name.strip_prefix(&start).unwrap_or_default();
        let Some(version) = rest.split(' ').next().and_then(|text| text.parse::<i64>().ok()) else {
            continue;
        };
        let is_gone = format!(
            "select count(*) from houston.moved_shards where version = {version} and not is_here and cell = '{to}'"
        );
        let end = if scalar(source, &is_gone).await? > 0 { "commit" } else { "rollback" };
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
