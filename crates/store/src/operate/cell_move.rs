//! Moves users from one cell to another, some at a time, while the others work.
//!
//! One transaction at the source lets no user be created, and locks those with the shards, their agentables and their locks of
//! runs. So nothing of them can be claimed, and what is posted to them waits; every other row of theirs refers to one of these,
//! so none can be added. Unless webhooks and triggers have read all their events, nothing is done. The rows are then copied to a
//! transaction at the target, parents first, and deleted at the source, children first. If a row has changed in between, the
//! numbers differ, and nothing is done. The commit has two phases, so Postgres at the target needs `max_prepared_transactions`:
//! the target prepares, the source commits its deletion together with the row that says where the shards are, and then the
//! target commits. Of what a killed attempt left prepared, that row decides ([`settle`]).
//!
//! Afterwards nothing can be written for them at the source, not even by a process that does not know the move: what they had is
//! gone, and the statement that creates users reads the moves (`creation::batch`).
//!
//! Which tables there are is read from the catalogue, so that a table that a migration adds is moved, too.

mod contents;
mod present;
mod readers;
mod settle;
mod tables;

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use houston_domain::cell::{CellName, ShardRange};
use houston_domain::id::UserId;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _};
use uuid::Uuid;

pub use self::contents::Contents;
pub use self::settle::settle;
use self::tables::{Rows, Table, tables};
use crate::error::Result;
use crate::handle::Shared;
use crate::pool::{Store, connect_options_of};

/// Events of this time before a move are read again at the target by streams of all events: so long may their clients be away.
const READ_AGAIN: &str = "1 day";

/// What became of an attempt to move users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// They are at the target, with so many rows.
    Done(u64),
    /// A worker holds a run of theirs, webhooks or triggers have not read an event of theirs yet, or something of theirs
    /// changed: nothing was done, and it may be tried again.
    Busy,
}

/// The names of the two cells of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'n> {
    /// The cell that has them.
    pub from: &'n CellName,
    /// The cell that gets them.
    pub to: &'n CellName,
}

impl Store {
    /// The users with these shards, in the order of their shards.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn users_of(&self, shards: ShardRange) -> Result<Vec<UserId>> {
        let users: Vec<Uuid> = sqlx::query_scalar(
            "-- store::cell_move::users
            select id from houston.users where right(id::text, 4) between $1 and $2 order by right(id::text, 4), id",
        )
        .bind(shards.first.to_string())
        .bind(shards.last.to_string())
        .fetch_all(&self.pool)
        .await?;
        Ok(users.into_iter().map(UserId).collect())
    }

    /// The number of users in the cell.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn count_users(&self) -> Result<i64> {
        let count = sqlx::query_scalar("-- store::cell_move::count\nselect count(*) from houston.users");
        Ok(count.fetch_one(&self.pool).await?)
    }

    /// Whether users can be moved to the cell: its Postgres can prepare transactions.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn can_get_users(&self) -> Result<bool> {
        let may = sqlx::query_scalar(
            "-- store::cell_move::can_prepare\nselect current_setting('max_prepared_transactions')::integer > 0",
        );
        Ok(may.fetch_one(&self.pool).await?)
    }

    /// Moves the users with these shards to another cell, all or none, and writes down in both that they are there. Settles
    /// what a killed attempt left. Tenants, agents and webhooks must have been copied there. What is posted to them meanwhile
    /// waits for the end, and then finds them gone.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when a cell cannot be reached or refuses a statement: then the source has
    /// everything, and it may be tried again; or, if only the last commit failed, the next attempt settles it.
    pub async fn move_shards(&self, to: &Self, between: Names<'_>, shards: ShardRange) -> Result<Moved> {
        let mut source = connect(self).await?;
        let mut target = connect(to).await?;
        // A connection that is dropped takes its transaction back.
        let moved = move_between(&mut source, &mut target, between, shards).await;
        let _ = source.close().await;
        let _ = target.close().await;
        match moved {
            // A lock that was not free within its time, a deadlock, or a row that the target has got meanwhile.
            Err(error) if matches!(error.sqlstate().as_deref(), Some("55P03" | "40P01" | "23505")) => {
                Ok(Moved::Busy)
            }
            other => other,
        }
    }
}

/// A connection for a move. The lock time-out bounds how long what is posted to the first user waits for the last.
async fn connect(to: &Shared) -> Result<PgConnection> {
    let settings = [
        ("statement_timeout", "60s"),
        ("lock_timeout", "1s"),
        ("idle_in_transaction_session_timeout", "60s"),
        // Few rows of large tables are wanted. What the planner makes of a table without an index must not compile anything.
        ("enable_seqscan", "off"),
        ("jit", "off"),
    ];
    Ok(connect_options_of(&to.sessions).options(settings).connect().await?)
}

async fn move_between(
    source: &mut PgConnection,
    target: &mut PgConnection,
    between: Names<'_>,
    shards: ShardRange,
) -> Result<Moved> {
    settle::take_lock(source).await?;
    settle::settle_between(source, target, between).await?;
    execute(target, "begin").await?;
    let before = text(target, "select pg_current_snapshot()::text").await?;
    let Some(rows) = lock(source, shards).await? else { return Ok(Moved::Busy) };
    if !readers::have_read_all(source, &rows).await? {
        return Ok(Moved::Busy);
    }
    let readers = readers::names(source, target).await?;
    present::move_tokens(source, target, &rows).await?;
    present::drop_present_keys(source, target, &rows).await?;
    let tables = tables(source, &rows).await?;
    let this = scalar(target, "select pg_current_xact_id()::text::bigint").await?;
    // What readers of all events may not have read yet; they know by its id what they have.
    let since =
        text(source, &format!("select (statement_timestamp() - interval '{READ_AGAIN}')::text")).await?;
    let mut copied = BTreeMap::new();
    for table in &tables {
        copied.insert(&table.name, copy(source, target, table, (since.as_str(), this)).await?);
    }
    for table in tables.iter().rev() {
        // A row that was added, or that a cascade of another table took.
        if copied.get(&table.name) != Some(&delete(source, table).await?) {
            return Ok(Moved::Busy);
        }
    }
    if !readers::leave_out(target, &readers, &before, this).await? {
        return Ok(Moved::Busy);
    }
    let version = version(source).await?.max(version(target).await?) + 1;
    write_down(source, between.to, shards, version, None).await?;
    write_down(target, between.to, shards, version, Some(this)).await?;
    let name = settle::prepared(between.from, version, this);
    execute(target, &format!("prepare transaction '{name}'")).await?;
    execute(source, "commit").await?;
    // If this does not happen, the next attempt or a process does it.
    execute(target, &format!("commit prepared '{name}'")).await?;
    if let Err(error) = readers::wake(target, &readers).await {
        tracing::debug!(%error, "readers of events were not notified of a move; they look by themselves");
    }
    Ok(Moved::Done(copied.values().sum()))
}

/// The highest version of a move that the cell knows.
async fn version(connection: &mut PgConnection) -> Result<i64> {
    scalar(connection, "select coalesce(max(version), 0) from houston.moved_shards").await
}

/// `came`: the transaction, at the target.
async fn write_down(
    connection: &mut PgConnection,
    name: &CellName,
    ShardRange { first, last }: ShardRange,
    version: i64,
    came: Option<i64>,
) -> Result<()> {
    let (first, last) = (first.0, last.0);
    let (is_here, xid) = (came.is_some(), came.map_or_else(|| "null".to_owned(), |xid| xid.to_string()));
    let row = format!(
        "insert into houston.moved_shards (version, first, last, cell, is_here, xid)
         values ({version}, {first}, {last}, '{name}', {is_here}, {xid})"
    );
    execute(connection, &row).await.map(drop)
}

/// Locks what all other rows refer to. `None` when a worker holds a run. No user is created meanwhile ([`settle::take_lock`]), so
/// these are all.
async fn lock(source: &mut PgConnection, shards: ShardRange) -> Result<Option<Rows>> {
    let mut rows = Rows { users: String::new(), agentables: String::new(), shards };
    let with = rows.in_shards("id");
    rows.users =
        ids(source, &format!("select id from houston.users where {with} order by id for update")).await?;
    // Nothing is added to them any more. Steps lock the locks of runs first, and so does this.
    let of_users = format!("select id from houston.agentables where user_id = any ({})", rows.users);
    let agentables = ids(source, &of_users).await?;
    let held = format!(
        "select agentable_id, holder is not null from houston.run_locks
          where agentable_id = any ({agentables}) order by 1 for update"
    );
    let is_held = all(source, &held).await?.iter().any(|row| row.try_get(1).unwrap_or(true));
    if is_held {
        return Ok(None);
    }
    rows.agentables = ids(source, &format!("{of_users} order by id for update")).await?;
    Ok(Some(rows))
}

/// The ids that a statement finds, as an array in SQL.
async fn ids(connection: &mut PgConnection, sql: &str) -> Result<String> {
    let found = all(connection, sql).await?;
    let ids: std::result::Result<Vec<Uuid>, sqlx::Error> = found.iter().map(|row| row.try_get(0)).collect();
    Ok(list(ids?.into_iter()))
}

/// Copies the rows of a table; returns how many. Numbers of transactions are those of one server: what was written since a time
/// gets that of the target's transaction, so that streams which have not read it at the source read it there, and the rest that
/// of the first transaction, which every reader has read.
async fn copy(
    source: &mut PgConnection,
    target: &mut PgConnection,
    Table { name, columns, condition }: &Table,
    (since, this): (&str, i64),
) -> Result<u64> {
    let quoted: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let values = columns.iter().zip(&quoted).map(|(column, quoted)| {
        let Some(time) = time_of_transaction(name, column) else { return quoted.clone() };
        format!(
            "case when {quoted} is null then null when {time} >= '{since}'::timestamptz then {this}::bigint else 3::bigint end"
        )
    });
    let values: Vec<String> = values.collect();
    let out = format!(
        "copy (select {} from houston.{name} where {condition} for update) to stdout (format binary)",
        values.join(", ")
    );
    let into = format!("copy houston.{name} ({}) from stdin (format binary)", quoted.join(", "));
    pipe(source, &out, target, &into).await
}

/// Copies what one cell sends to another; returns the number of rows.
async fn pipe(source: &mut PgConnection, out: &str, target: &mut PgConnection, into: &str) -> Result<u64> {
    let mut sink = target.copy_in_raw(into).await?;
    let mut rows = source.copy_out_raw(out).await?;
    while let Some(piece) = rows.try_next().await? {
        sink.send(piece).await?;
    }
    Ok(sink.finish().await?)
}

/// For a column with the number of a transaction, that with its time.
fn time_of_transaction(table: &str, column: &str) -> Option<&'static str> {
    match (table, column) {
        ("events" | "messages", "xid") | ("runs", "first_xid") => Some("created_at"),
        ("runs", "started_xid") => Some("started_at"),
        ("runs", "last_xid") => Some("ended_at"),
        _ => None,
    }
}

async fn delete(connection: &mut PgConnection, Table { name, condition, .. }: &Table) -> Result<u64> {
    execute(connection, &format!("delete from houston.{name} where {condition}")).await
}

/// An array of ids as SQL. An id has hex digits and dashes only.
fn list(ids: impl Iterator<Item = Uuid>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    format!("'{{{}}}'::uuid[]", ids.join(","))
}

async fn execute(connection: &mut PgConnection, sql: &str) -> Result<u64> {
    let sql = AssertSqlSafe(format!("-- store::cell_move\n{sql}"));
    Ok(sqlx::raw_sql(sql).execute(connection).await?.rows_affected())
}

async fn all(connection: &mut PgConnection, sql: &str) -> Result<Vec<sqlx::postgres::PgRow>> {
    let sql = AssertSqlSafe(format!("-- store::cell_move\n{sql}"));
    Ok(sqlx::raw_sql(sql).fetch_all(connection).await?)
}

async fn scalar(connection: &mut PgConnection, sql: &str) -> Result<i64> {
    let rows = all(connection, sql).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(row.try_get(0)?)
}

async fn text(connection: &mut PgConnection, sql: &str) -> Result<String> {
    let rows = all(connection, sql).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(row.try_get(0)?)
}
