//! Moves users from one cell to another, some at a time, while the others work.
//!
//! One transaction at the source lets no user be created, and locks those with the shards, their agentables and their locks of
//! runs. So nothing of them can be claimed, and what is posted to them waits; every other row of theirs refers to one of these,
//! so none can be added. The rows are then copied to a transaction at the target, parents first, and deleted at the source,
//! children first. If a row has changed in between, the numbers differ, and nothing is done. The commit has two phases, so
//! Postgres at the target needs `max_prepared_transactions`: the target prepares, the source commits its deletion together with the row that says where the
//! shards are, and then the target commits. Of what a killed attempt left prepared, that row decides (`settle`).
//!
//! Which tables there are is read from the catalogue, so that a table that a migration adds is moved, too.

mod tables;

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use houston_domain::cell::ShardRange;
use houston_domain::id::{Shard, UserId};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _};
use uuid::Uuid;

use self::tables::{Table, tables};
use crate::error::Result;
use crate::handle::{ApiStore, Shared};
use crate::pool::{Store, connect_options_of};

/// What became of an attempt to move users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// They are at the target, with so many rows.
    Done(u64),
    /// A worker holds a run of theirs, or something of theirs changed: nothing was done, and it may be tried again.
    Busy,
}

impl Shared {
    /// The moves that the cell knows: the shards, the version, and the cell that has them now, as its shards in the settings.
    async fn read_moves(&self) -> Result<Vec<(ShardRange, i64, ShardRange)>> {
        let rows: Vec<(i32, i32, i64, String)> = sqlx::query_as(
            "-- store::cell_move::moves
            select first, last, version, cell from houston.moved_shards order by version, first",
        )
        .fetch_all(&self.pool)
        .await?;
        let shard = |number: i32| u16::try_from(number).ok().map(Shard);
        let read = |(first, last, version, cell): (i32, i32, i64, String)| {
            let shards = ShardRange { first: shard(first)?, last: shard(last)? };
            Some((shards, version, cell.parse().ok()?))
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }
}

impl ApiStore {
    /// The moves of shards that the cell knows: the shards, the version, and the cell that has them now, as its shards in the
    /// settings.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn moves(&self) -> Result<Vec<(ShardRange, i64, ShardRange)>> {
        self.shared.read_moves().await
    }
}

/// The two cells of a move, each by its shards in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// The cell that has them.
    pub from: ShardRange,
    /// The cell that gets them.
    pub to: ShardRange,
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

    /// Moves the users with these shards to another cell, all or none, and writes down in both that they are there. Settles
    /// what a killed attempt left. Tenants, agents and webhooks must have been copied there. What is posted to them meanwhile waits
    /// for the end, and then finds them gone.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when a cell cannot be reached or refuses a statement: then the source has
    /// everything, and it may be tried again.
    pub async fn move_shards(&self, to: &Self, between: Names, shards: ShardRange) -> Result<Moved> {
        // The lock time-out bounds how long what is posted to the first of them waits for the last.
        let settings = [
            ("statement_timeout", "60s"),
            ("lock_timeout", "1s"),
            ("idle_in_transaction_session_timeout", "60s"),
        ];
        let mut source = connect_options_of(&self.pool).options(settings).connect().await?;
        let mut target = connect_options_of(&to.pool).options(settings).connect().await?;
        // A connection that is dropped takes its transaction back.
        let moved = async {
            settle(&mut source, &mut target, between.from).await?;
            move_between(&mut source, &mut target, between, shards).await
        };
        let moved = moved.await;
        let _ = source.close().await;
        let _ = target.close().await;
        match moved {
            // A lock that was not free within its time, or a deadlock.
            Err(error) if matches!(error.sqlstate().as_deref(), Some("55P03" | "40P01")) => Ok(Moved::Busy),
            other => other,
        }
    }
}

async fn move_between(
    source: &mut PgConnection,
    target: &mut PgConnection,
    between: Names,
    shards: ShardRange,
) -> Result<Moved> {
    execute(source, "begin").await?;
    execute(target, "begin").await?;
    let Some((users, agentables)) = lock(source, shards).await? else { return Ok(Moved::Busy) };
    let tables = tables(source, &users, &agentables).await?;
    let seen = seen(source).await?;
    let this: i64 = scalar(target, "select pg_current_xact_id()::text::bigint").await?;
    let mut copied = BTreeMap::new();
    for table in &tables {
        copied.insert(&table.name, copy(source, target, table, &seen, this).await?);
    }
    for table in tables.iter().rev() {
        // A row that was added, or that a cascade of another table took.
        if copied.get(&table.name) != Some(&delete(source, table).await?) {
            return Ok(Moved::Busy);
        }
    }
    let rows = copied.values().sum();
    let version = version(source).await?.max(version(target).await?) + 1;
    write_down(source, between.to, shards, version).await?;
    write_down(target, between.to, shards, version).await?;
    let name = prepared(between.from, version);
    execute(target, &format!("prepare transaction '{name}'")).await?;
    execute(source, "commit").await?;
    // If this does not happen, the next attempt does it.
    execute(target, &format!("commit prepared '{name}'")).await?;
    Ok(Moved::Done(rows))
}

/// The name of what a target has prepared.
fn prepared(from: ShardRange, version: i64) -> String {
    format!("houston move from {from} {version}")
}

/// Commits what the target has prepared if the source has committed it, and takes it back if not.
async fn settle(source: &mut PgConnection, target: &mut PgConnection, from: ShardRange) -> Result<()> {
    let start = format!("houston move from {from} ");
    let left = all(
        target,
        &format!("select gid from pg_prepared_xacts where database = current_database() and starts_with(gid, '{start}')"),
    )
    .await?;
    for row in left {
        let name: String = row.try_get(0)?;
        let Some(version) = name.strip_prefix(&start).and_then(|text| text.parse::<i64>().ok()) else {
            continue;
        };
        let is_gone = format!("select count(*) from houston.moved_shards where version = {version}");
        let end = if scalar(source, &is_gone).await? > 0 { "commit" } else { "rollback" };
        execute(target, &format!("{end} prepared '{name}'")).await?;
    }
    Ok(())
}

/// The highest version of a move that the cell knows.
async fn version(connection: &mut PgConnection) -> Result<i64> {
    scalar(connection, "select coalesce(max(version), 0) from houston.moved_shards").await
}

async fn write_down(
    connection: &mut PgConnection,
    name: ShardRange,
    ShardRange { first, last }: ShardRange,
    version: i64,
) -> Result<()> {
    let (first, last) = (first.0, last.0);
    let row = format!(
        "insert into houston.moved_shards (version, first, last, cell) values ({version}, {first}, {last}, '{name}')"
    );
    execute(connection, &row).await.map(drop)
}

/// Locks what all other rows refer to; returns the ids of the users and of their agentables. `None` when a worker holds a run.
async fn lock(source: &mut PgConnection, shards: ShardRange) -> Result<Option<(String, String)>> {
    // Nobody is created meanwhile, so these are all.
    execute(source, "lock table houston.users in share row exclusive mode").await?;
    let with = format!("right(id::text, 4) between '{}' and '{}'", shards.first, shards.last);
    let users =
        ids(source, &format!("select id from houston.users where {with} order by id for update")).await?;
    let of_users = format!("where user_id = any ({users}) order by 1 for update");
    let held = format!("select agentable_id, holder is not null from houston.run_locks {of_users}");
    let is_held = all(source, &held).await?.iter().any(|row| row.try_get(1).unwrap_or(true));
    if is_held {
        return Ok(None);
    }
    let agentables = ids(source, &format!("select id from houston.agentables {of_users}")).await?;
    Ok(Some((users, agentables)))
}

/// The ids that a statement finds, as an array in SQL.
async fn ids(source: &mut PgConnection, sql: &str) -> Result<String> {
    let found = all(source, sql).await?;
    let ids: std::result::Result<Vec<Uuid>, sqlx::Error> = found.iter().map(|row| row.try_get(0)).collect();
    Ok(list(ids?.into_iter()))
}

/// Which transactions all readers of events have read, as an array of snapshots.
async fn seen(source: &mut PgConnection) -> Result<String> {
    let positions = all(source, "select split_part(position, '~', 1) from houston.readers").await?;
    let positions: std::result::Result<Vec<String>, sqlx::Error> =
        positions.iter().map(|row| row.try_get(0)).collect();
    // Positions are numbers with colons and commas.
    let quoted: Vec<String> =
        positions?.iter().map(|position| format!("'{}'", position.replace('\'', ""))).collect();
    Ok(format!("array[{}]::pg_snapshot[]", quoted.join(", ")))
}

/// Copies the rows of a table; returns how many. Numbers of transactions are those of one server: what every reader of the
/// source has read gets the number of the first transaction, and the rest that of the target's, so that its readers read it.
async fn copy(
    source: &mut PgConnection,
    target: &mut PgConnection,
    Table { name, columns, condition }: &Table,
    seen: &str,
    this: i64,
) -> Result<u64> {
    let quoted: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let values = columns.iter().zip(&quoted).map(|(column, quoted)| {
        if !is_transaction(name, column) {
            return quoted.clone();
        }
        format!(
            "case when {quoted} is null then null when exists (select from unnest({seen}) s
               where not pg_visible_in_snapshot({quoted}::text::xid8, s)) then {this}::bigint else 3::bigint end"
        )
    });
    let values: Vec<String> = values.collect();
    let out = format!(
        "copy (select {} from houston.{name} where {condition} for update) to stdout (format binary)",
        values.join(", ")
    );
    let into = format!("copy houston.{name} ({}) from stdin (format binary)", quoted.join(", "));
    let mut sink = target.copy_in_raw(&into).await?;
    let mut rows = source.copy_out_raw(&out).await?;
    while let Some(piece) = rows.try_next().await? {
        sink.send(piece).await?;
    }
    Ok(sink.finish().await?)
}

/// Whether a column has the number of a transaction.
fn is_transaction(table: &str, column: &str) -> bool {
    matches!(
        (table, column),
        ("events" | "messages", "xid") | ("runs", "first_xid" | "started_xid" | "last_xid")
    )
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
