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
//! gone, and the statement that creates users reads the moves (`creation`).
//!
//! Which tables there are is read from the catalogue, so that a table that a migration adds is moved, too.

mod settle;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;
use houston_domain::cell::{CellName, ShardRange};
use houston_domain::id::{TenantId, UserId};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, FromRow, PgConnection};
use uuid::Uuid;

use crate::connections::connect_options_of;
use crate::error::Result;
use crate::event::EventPosition;
use crate::handle::Shared;
use crate::pool::Store;

pub use self::settle::settle;

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
    pub async fn count_users(&self) -> Result<i64> {
        let count = sqlx::query_scalar("-- store::cell_move::count\nselect count(*) from houston.users");
        Ok(count.fetch_one(&self.pool).await?)
    }

    /// Whether users can be moved to the cell: its Postgres can prepare transactions.
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

    /// What the database has. It may have no tables yet, or those of an older or a newer release.
    pub async fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        if self.has_table("houston.tenants").await? {
            let tenants: Vec<Uuid> =
                sqlx::query_scalar("-- store::cell_move::contents::tenants\nselect id from houston.tenants")
                    .fetch_all(&self.pool)
                    .await?;
            contents.tenants = tenants.into_iter().map(TenantId).collect();
        }
        if self.has_table("houston.users").await? {
            contents.has_users = sqlx::query_scalar(
                "-- store::cell_move::contents::has_users\nselect exists (select from houston.users)",
            )
            .fetch_one(&self.pool)
            .await?;
        }
        if self.has_table("houston.moved_shards").await? {
            // A release before had no column `is_here`.
            let names: Vec<String> = sqlx::query_scalar(
                "-- store::cell_move::contents::names
                select distinct cell from houston.moved_shards m where (to_jsonb(m)->>'is_here')::boolean order by cell",
            )
            .fetch_all(&self.pool)
            .await?;
            contents.names = names.iter().filter_map(|name| name.parse().ok()).collect();
        }
        Ok(contents)
    }

    /// The same text for two addresses of one database, and another one for each other database: its name, and when its server
    /// was started. The identifier of a server would not do, since copies of its files have the same one.
    pub async fn identity(&self) -> Result<String> {
        let identity = sqlx::query_scalar(
            "-- store::cell_move::contents::identity
            select concat_ws(' ', extract(epoch from pg_postmaster_start_time())::text, current_database()::text)",
        );
        Ok(identity.fetch_one(&self.pool).await?)
    }

    async fn has_table(&self, name: &str) -> Result<bool> {
        let has = sqlx::query_scalar(
            "-- store::cell_move::contents::has_table\nselect to_regclass($1) is not null",
        );
        Ok(has.bind(name).fetch_one(&self.pool).await?)
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
    let before: String = value(target, "select pg_current_snapshot()::text").await?;
    let Some(rows) = lock(source, shards).await? else { return Ok(Moved::Busy) };
    if !have_read_all(source, &rows).await? {
        return Ok(Moved::Busy);
    }
    let readers = reader_names(source, target).await?;
    settle::move_tokens(source, target, &rows).await?;
    settle::drop_present_keys(source, target, &rows).await?;
    let tables = tables(source, &rows).await?;
    let this: i64 = value(target, "select pg_current_xact_id()::text::bigint").await?;
    // What readers of all events may not have read yet; they know by its id what they have.
    let since: String =
        value(source, &format!("select (statement_timestamp() - interval '{READ_AGAIN}')::text")).await?;
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
    if !leave_out(target, &readers, &before, this).await? {
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
    if let Err(error) = wake_readers(target, &readers).await {
        tracing::debug!(%error, "readers of events were not notified of a move; they look by themselves");
    }
    Ok(Moved::Done(copied.values().sum()))
}

/// The highest version of a move that the cell knows.
async fn version(connection: &mut PgConnection) -> Result<i64> {
    value(connection, "select coalesce(max(version), 0) from houston.moved_shards").await
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
    let locks: Vec<(Uuid, bool)> = all(source, &held).await?;
    if locks.iter().any(|(_, is_held)| *is_held) {
        return Ok(None);
    }
    rows.agentables = ids(source, &format!("{of_users} order by id for update")).await?;
    Ok(Some(rows))
}

/// The ids that a statement finds, as an array in SQL.
async fn ids(connection: &mut PgConnection, sql: &str) -> Result<String> {
    // An id has hex digits and dashes only.
    let ids: Vec<Uuid> = column(connection, sql).await?;
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    Ok(format!("'{{{}}}'::uuid[]", ids.join(",")))
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

async fn execute(connection: &mut PgConnection, sql: &str) -> Result<u64> {
    let sql = AssertSqlSafe(format!("-- store::cell_move\n{sql}"));
    Ok(sqlx::raw_sql(sql).execute(connection).await?.rows_affected())
}

async fn all<T: for<'r> FromRow<'r, PgRow>>(connection: &mut PgConnection, sql: &str) -> Result<Vec<T>> {
    let sql = AssertSqlSafe(format!("-- store::cell_move\n{sql}"));
    let rows = sqlx::raw_sql(sql).fetch_all(connection).await?;
    Ok(rows.iter().map(T::from_row).collect::<sqlx::Result<_>>()?)
}

/// The first column of each row.
async fn column<T>(connection: &mut PgConnection, sql: &str) -> Result<Vec<T>>
where
    (T,): for<'r> FromRow<'r, PgRow>,
{
    let rows: Vec<(T,)> = all(connection, sql).await?;
    Ok(rows.into_iter().map(|(value,)| value).collect())
}

/// The first column of the first row.
async fn value<T>(connection: &mut PgConnection, sql: &str) -> Result<T>
where
    (T,): for<'r> FromRow<'r, PgRow>,
{
    Ok(column(connection, sql).await?.into_iter().next().ok_or(sqlx::Error::RowNotFound)?)
}

/// Tables whose rows belong to no user, are copied to all cells, or may be lost (rates).
const STAY: [&str; 22] = [
    "agents",
    "api_keys",
    "audit",
    "cron_ticks",
    "erased_spending",
    "functions",
    "health_changes",
    "health_checks",
    "installation",
    "migrations",
    "moved_shards",
    "paused_lanes",
    "rates",
    "readers",
    "replays",
    "resumed_lanes",
    "settings",
    "team_agents",
    "teams",
    "tenants",
    "tool_sources",
    "workers",
];

/// Whose rows are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rows {
    /// The users, as an array in SQL.
    users: String,
    /// Their agentables, as an array in SQL.
    agentables: String,
    /// Their shards.
    shards: ShardRange,
}

impl Rows {
    /// The condition that an id is that of a thing of these users.
    fn in_shards(&self, column: &str) -> String {
        let ShardRange { first, last } = self.shards;
        format!("right({column}::text, 4) between '{first}' and '{last}'")
    }

    /// The condition for idempotency keys of requests of these users, whatever the requests made. Those of the tenant, whose ids
    /// have any shard, are no such keys.
    fn idempotency_keys(&self) -> String {
        format!(
            "{} and not (exists (select from houston.agents a where a.id = resource_id)
                         or exists (select from houston.teams t where t.id = resource_id))",
            self.in_shards("resource_id")
        )
    }

    /// The condition for their client tokens, which their cell and the home have.
    fn tokens(&self) -> String {
        format!("parent_id is not null and user_id = any ({})", self.users)
    }
}

/// One table, with its columns and the condition for the rows of the users.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    name: String,
    columns: Vec<String>,
    condition: String,
}

/// The tables with rows of users, parents before children.
async fn tables(source: &mut PgConnection, of: &Rows) -> Result<Vec<Table>> {
    let found: Vec<(String, Vec<String>, Vec<String>, bool)> = all(
        source,
        "select c.relname::text,
                array(select a.attname::text from pg_attribute a
                       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
                       order by a.attnum),
                array(select distinct p.relname::text from pg_constraint f join pg_class p on p.oid = f.confrelid
                       where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid),
                exists (select from pg_attribute a
                         where a.attrelid = c.oid and a.attname = 'agentable_id' and a.attnotnull)
           from pg_class c where c.relnamespace = 'houston'::regnamespace and c.relkind = 'r' order by c.relname",
    )
    .await?;
    let mut left = Vec::with_capacity(found.len());
    for (name, columns, mut parents, names_agentable) in found {
        if let Some(condition) = condition(&name, (columns.as_slice(), names_agentable), of) {
            parents.extend(found_by(&name).iter().map(|parent| (*parent).to_owned()));
            left.push((Table { name, columns, condition }, parents));
        }
    }
    Ok(in_order(left))
}

/// Tables by whose rows those of a table are found, which are therefore deleted after it.
fn found_by(table: &str) -> &'static [&'static str] {
    match table {
        "attachment_parts" => &["attachments"],
        "model_calls" => &["runs", "sessions"],
        "tool_calls" => &["runs"],
        _ => &[],
    }
}

/// The condition for the rows of users, by columns that have an index; `None` for a table that stays. With `names_agentable`,
/// each row names one.
fn condition(table: &str, (columns, names_agentable): (&[String], bool), of: &Rows) -> Option<String> {
    let Rows { users, agentables, .. } = of;
    let in_users = |column: &str| format!("{column} = any ({users})");
    let in_both = |column: &str| format!("({} or {column} = any ({agentables}))", in_users(column));
    match table {
        "users" => return Some(in_users("id")),
        "agentables" => return Some(in_users("user_id")),
        "idempotency_keys" => return Some(of.idempotency_keys()),
        // Also of users who are gone.
        "erasures" => return Some(of.in_shards("id")),
        "attachment_parts" => {
            let attachments = format!("select id from houston.attachments where {}", in_users("user_id"));
            return Some(format!("attachment_id = any (array({attachments}))"));
        }
        "model_calls" | "tool_calls" => {
            let by = found_by(table).iter();
            let ids =
                by.map(|by| format!("select id from houston.{by} where agentable_id = any ({agentables})"));
            return Some(format!("run_id = any (array({}))", ids.collect::<Vec<_>>().join(" union all ")));
        }
        // The others are the tenant's, of which each cell has a copy.
        "webhooks" => return Some(format!("run_id is not null and agentable_id = any ({agentables})")),
        _ if STAY.contains(&table) => return None,
        _ => {}
    }
    if names_agentable {
        return Some(format!("agentable_id = any ({agentables})"));
    }
    let has = |column: &str| columns.iter().any(|other| other == column);
    let keys: Vec<String> = ["agentable_id", "user_id", "owner_id", "plan_id"]
        .into_iter()
        .filter(|column| has(column))
        .map(|column| match column {
            "user_id" => in_users(column),
            "owner_id" => in_both(column),
            _ => format!("{column} = any ({agentables})"),
        })
        .collect();
    // A table without any of them: its rows are found by nothing, and the foreign keys will say so.
    (!keys.is_empty()).then(|| format!("({})", keys.join(" or ")))
}

/// Sorts tables so that each comes after those it refers to.
fn in_order(mut left: Vec<(Table, Vec<String>)>) -> Vec<Table> {
    let mut sorted: Vec<Table> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |parents: &[String], left: &[(Table, Vec<String>)]| {
            left.iter().any(|(other, _)| parents.contains(&other.name))
        };
        let next = (0..left.len()).find(|nth| !waits(&left[*nth].1, &left));
        // A circle: there is none today. Its foreign keys would refuse the rows.
        sorted.push(left.remove(next.unwrap_or(0)).0);
    }
    sorted
}

/// The names of the readers of both cells. One that only the target has was not asked for these events.
async fn reader_names(source: &mut PgConnection, target: &mut PgConnection) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for cell in [source, target] {
        names.extend(column::<String>(cell, "select name from houston.readers").await?);
    }
    Ok(names)
}

/// Whether all readers of the source have read every event of these users. What a reader is about to commit does not count.
async fn have_read_all(source: &mut PgConnection, rows: &Rows) -> Result<bool> {
    let of_users = format!("agentable_id = any ({})", rows.agentables);
    let is_unread = |column: &str| {
        format!("({column} >= d.first and not pg_visible_in_snapshot({column}::text::xid8, d.seen))")
    };
    let xid = is_unread("xid");
    let of_run = ["first_xid", "started_xid", "last_xid"].map(is_unread).join(" or ");
    let behind = format!(
        "with d as materialized (
             select s.seen, pg_snapshot_xmin(s.seen)::text::bigint as first
               from (select split_part(position, '~', 1)::pg_snapshot as seen from houston.readers) s)
         select count(*) from d
          where exists (select from houston.events where {of_users} and {xid})
             or exists (select from houston.messages where {of_users} and {xid})
             or exists (select from houston.runs where {of_users} and ({of_run}))"
    );
    Ok(value::<i64>(source, &behind).await? == 0)
}

/// Makes sure that the target has these readers, and that they leave out what this transaction of the target writes. `before`:
/// a snapshot from before it. `false` when one of them is too far behind. Each reader waits from here on until the end of the move.
async fn leave_out(
    target: &mut PgConnection,
    names: &BTreeSet<String>,
    before: &str,
    this: i64,
) -> Result<bool> {
    for name in names {
        let name = name.replace('\'', "");
        let reader = format!(
            "insert into houston.readers (name, position) values ('{name}', '{before}')
                 on conflict (name) do update set name = excluded.name returning position"
        );
        let position: String = value(target, &reader).await?;
        // A reader with a position of another database begins at the present end.
        let Ok(position) = position.parse::<EventPosition>() else { continue };
        let Some(position) = position.with_read(this.unsigned_abs()) else { return Ok(false) };
        execute(target, &format!("update houston.readers set position = '{position}' where name = '{name}'"))
            .await?;
    }
    Ok(true)
}

/// Wakes the readers at the target, which may have had nothing to read for.
async fn wake_readers(target: &mut PgConnection, names: &BTreeSet<String>) -> Result<()> {
    for name in names {
        execute(target, &format!("select pg_notify('houston', '1 {}')", name.replace('\'', ""))).await?;
    }
    Ok(())
}

/// What a database has, as far as it says whose it is. Without any of it, it is empty or has only tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// Its tenants. Each cell of an installation has copies of the same ones.
    pub tenants: Vec<TenantId>,
    /// Whether it has users.
    pub has_users: bool,
    /// The names of the cell when users were moved to it.
    pub names: Vec<CellName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, parents: &[&str]) -> (Table, Vec<String>) {
        let table = Table { name: name.to_owned(), columns: Vec::new(), condition: String::new() };
        (table, parents.iter().map(|parent| (*parent).to_owned()).collect())
    }

    #[test]
    fn tables_come_after_those_they_refer_to() {
        let sorted = in_order(vec![table("a", &["c", "tenants"]), table("b", &[]), table("c", &["b"])]);
        assert_eq!(sorted.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
    }

    #[test]
    fn rows_are_found_by_user_and_agentable() {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rows = Rows { users: "U".into(), agentables: "A".into(), shards: "0010-001f".parse().unwrap() };
        let of = |table: &str, names: &[&str]| condition(table, (columns(names).as_slice(), false), &rows);
        assert_eq!(of("users", &["id"]).unwrap(), "id = any (U)");
        assert_eq!(of("history", &["agentable_id", "seq"]).unwrap(), "(agentable_id = any (A))");
        let both = of("knowledge_items", &["agentable_id", "user_id"]).unwrap();
        assert_eq!(both, "(agentable_id = any (A) or user_id = any (U))");
        assert_eq!(of("erasures", &["id"]).unwrap(), "right(id::text, 4) between '0010' and '001f'");
        let always = condition("run_locks", (columns(&["agentable_id", "user_id"]).as_slice(), true), &rows);
        assert_eq!(always.unwrap(), "agentable_id = any (A)", "the users of locks have no index");
        let calls = "run_id = any (array(select id from houston.runs where agentable_id = any (A)))";
        assert_eq!(of("tool_calls", &["run_id", "agentable_id"]).unwrap(), calls);
        assert_eq!(of("api_keys", &["user_id"]), None);
        assert_eq!(of("workers", &["id"]), None);
    }
}
