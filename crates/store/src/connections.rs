//! `Connections`: the connections that one [`Purpose`] has. None of them is used for another, so whatever fills one pool,
//! the others go on.
//!
//! A task that holds a connection must not wait for another one of the same purpose: as many of them as there are
//! connections would wait for each other. The tests of this crate and of the API have one connection for each purpose, so
//! that such a task waits for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use houston_domain::id::TenantId;
use houston_meter::{Turn, Turns};
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{
    PgArguments, PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgQueryResult, PgRow, PgStatement,
};
use sqlx::{Connection, Either, Execute, Executor, Postgres, SqlStr, Transaction};

use crate::timeline::Newest;

/// How long a connection may be idle that is used without a ping, and how long a ping may take.
const MAX_UNCHECKED: Duration = Duration::from_secs(1);
const PING: Duration = Duration::from_secs(1);

/// A tenant beside others has one of so many parts: what Postgres does for it delays what it does for them.
const PARTS: usize = 4;

/// What connections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Requests of the API.
    Requests,
    /// Runs, and what finds and takes them.
    Runs,
    /// What nobody waits for: webhooks, triggers, archives, titles, erasures, the health monitor.
    Background,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Runs, Self::Background];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Runs => "runs",
            Self::Background => "background",
        }
    }
}

/// How many connections each purpose has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Those of [`Purpose::Requests`].
    pub requests: u32,
    /// Those of [`Purpose::Runs`].
    pub runs: u32,
    /// Those of [`Purpose::Background`].
    pub background: u32,
}

impl Sizes {
    /// Divides connections: runs and background work have these percents, requests the rest, and each has one at least.
    pub fn divide(all: u32, runs_percent: u8, background_percent: u8) -> Self {
        let share =
            |percent: u8| u32::try_from(u64::from(all) * u64::from(percent) / 100).unwrap_or(u32::MAX).max(1);
        let (runs, background) = (share(runs_percent), share(background_percent));
        Self { requests: all.saturating_sub(runs).saturating_sub(background).max(1), runs, background }
    }

    /// One for each purpose.
    pub fn ones() -> Self {
        Self { requests: 1, runs: 1, background: 1 }
    }

    pub(crate) fn of(self, purpose: Purpose) -> u32 {
        match purpose {
            Purpose::Requests => self.requests,
            Purpose::Runs => self.runs,
            Purpose::Background => self.background,
        }
    }
}

/// The use of the connections of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Use {
    /// Connections that are used now.
    pub used: usize,
    /// Those that could be used besides.
    pub free: usize,
    /// How often a connection was asked for.
    pub asked: u64,
    /// How long callers have waited for one, altogether.
    pub waited: Duration,
    /// How often none came in time.
    pub timed_out: u64,
}

/// What a pool's connections have in common.
#[derive(Debug)]
struct State {
    since: Instant,
    asked: AtomicU64,
    waited_us: AtomicU64,
    timed_out: AtomicU64,
    /// Microseconds after `since`: connections that have not been used since then are pinged first, because one was lost.
    doubted_us: AtomicU64,
}

impl State {
    fn new() -> Self {
        let [asked, waited_us, timed_out, doubted_us] = Default::default();
        Self { since: Instant::now(), asked, waited_us, timed_out, doubted_us }
    }

    fn age_us(&self) -> u64 {
        us(self.since.elapsed())
    }

    fn is_in_doubt(&self, idle: Duration) -> bool {
        let used_at = self.age_us().saturating_sub(us(idle));
        idle >= MAX_UNCHECKED || used_at <= self.doubted_us.load(Ordering::Relaxed)
    }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The connections of one purpose; cheap to clone. As an executor it runs each statement on one of them, a read on another
/// one if the first was closed meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    pool: PgPool,
    state: Arc<State>,
    turns: Arc<Turns>,
}

impl Connections {
    /// A pool that connects at its first use, to the first of the hosts. `newest`: if there may be several. What is idle for
    /// `idle` is closed.
    pub(crate) fn new(
        hosts: &[PgConnectOptions],
        size: u32,
        (acquire_timeout, idle): (Duration, Duration),
        newest: Option<Newest>,
    ) -> Self {
        let state = Arc::new(State::new());
        let options = PgPoolOptions::new()
            .max_connections(size)
            .acquire_timeout(acquire_timeout)
            .idle_timeout(idle)
            // No ping before each query, but after a pause: while a connection is idle, Postgres may close it
            // (`idle_session_timeout`), or a pooler, a firewall or a failover.
            .test_before_acquire(false);
        let options = match newest.clone() {
            Some(newest) => newest.guard(options),
            None => options,
        };
        let doubts = Arc::clone(&state);
        let options = options.before_acquire(move |connection, metadata| {
            let is_current = newest.as_ref().is_none_or(|newest| newest.is_current(metadata.age));
            let is_in_doubt = doubts.is_in_doubt(metadata.idle_for);
            Box::pin(async move { Ok(is_current && (!is_in_doubt || answers(connection).await)) })
        });
        let pool = options.connect_lazy_with(hosts.first().cloned().unwrap_or_default());
        let places = usize::try_from(size).unwrap_or(usize::MAX);
        let turns = Turns::new(places, places.div_ceil(PARTS), places.saturating_sub(1));
        Self { pool, state, turns }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// How they are used.
    pub(crate) fn in_use(&self) -> Use {
        let open = usize::try_from(self.pool.size()).unwrap_or(usize::MAX);
        let most = usize::try_from(self.pool.options().get_max_connections()).unwrap_or(usize::MAX);
        let used = open.saturating_sub(self.pool.num_idle());
        Use {
            used,
            free: most.saturating_sub(used),
            asked: self.state.asked.load(Ordering::Relaxed),
            waited: Duration::from_micros(self.state.waited_us.load(Ordering::Relaxed)),
            timed_out: self.state.timed_out.load(Ordering::Relaxed),
        }
    }

    /// Waits until it is the tenant's turn, for as long as for a connection at most.
    pub(crate) async fn turn(&self, tenant: TenantId) -> sqlx::Result<Turn> {
        let asked = Instant::now();
        let most = self.pool.options().get_acquire_timeout();
        let turn = tokio::time::timeout(most, self.turns.take(tenant.0)).await;
        self.state.waited_us.fetch_add(us(asked.elapsed()), Ordering::Relaxed);
        turn.map_err(|_| {
            self.state.timed_out.fetch_add(1, Ordering::Relaxed);
            sqlx::Error::PoolTimedOut
        })
    }

    pub(crate) async fn acquire(&self) -> sqlx::Result<PoolConnection<Postgres>> {
        let asked = Instant::now();
        let acquired = self.pool.acquire().await;
        self.state.asked.fetch_add(1, Ordering::Relaxed);
        self.state.waited_us.fetch_add(us(asked.elapsed()), Ordering::Relaxed);
        if matches!(acquired, Err(sqlx::Error::PoolTimedOut)) {
            self.state.timed_out.fetch_add(1, Ordering::Relaxed);
        }
        acquired
    }

    /// Begins a transaction; once more if the connection was lost, on which nothing was done then.
    pub(crate) async fn begin(&self) -> sqlx::Result<Transaction<'static, Postgres>> {
        match Transaction::begin(self.acquire().await?, None).await {
            Err(error) if self.is_lost(&error) => Transaction::begin(self.acquire().await?, None).await,
            begun => begun,
        }
    }

    /// Begins a transaction with a statement, to its end also if the caller no longer waits: sqlx rolls back only what it
    /// knows to have begun, and would give the connection, with an open transaction in it, to others. What they wrote would
    /// be lost with it.
    pub(crate) async fn begin_with(&self, begin: SqlStr) -> sqlx::Result<Transaction<'static, Postgres>> {
        match begun(self.acquire().await?, begin.clone()).await {
            Err(error) if self.is_lost(&error) => begun(self.acquire().await?, begin).await,
            begun => begun,
        }
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Whether a statement failed because its connection was closed. Then all that have been idle since are in doubt.
    fn is_lost(&self, error: &sqlx::Error) -> bool {
        let is_lost = match error {
            sqlx::Error::Io(_) => true,
            // Ended by an operator, a crash, a start, or a pooler.
            sqlx::Error::Database(refused) => refused
                .code()
                .is_some_and(|code| code.starts_with("08") || ["57P01", "57P02", "57P03"].contains(&&*code)),
            _ => false,
        };
        if is_lost {
            self.state.doubted_us.fetch_max(self.state.age_us(), Ordering::Relaxed);
        }
        is_lost
    }

    async fn all(&self, statement: Statement) -> sqlx::Result<Vec<Either<PgQueryResult, PgRow>>> {
        self.acquire().await?.fetch_many(statement).try_collect().await
    }
}

/// The options of a pool's connections, to open one of its own.
pub(crate) fn connect_options_of(pool: &PgPool) -> PgConnectOptions {
    PgConnectOptions::clone(&pool.connect_options())
}

/// The connections of each purpose.
#[derive(Debug)]
pub(crate) struct Pools(pub(crate) [Connections; 3]);

impl Pools {
    pub(crate) fn of(&self, purpose: Purpose) -> &Connections {
        &self.0[purpose as usize]
    }
}

async fn begun(
    connection: PoolConnection<Postgres>,
    begin: SqlStr,
) -> sqlx::Result<Transaction<'static, Postgres>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends after one statement, whose connection the pool waits for"
    )]
    let transaction = tokio::spawn(Transaction::begin(connection, Some(begin)));
    transaction.await.map_err(|_| sqlx::Error::WorkerCrashed)?
}

async fn answers(connection: &mut PgConnection) -> bool {
    matches!(tokio::time::timeout(PING, connection.ping()).await, Ok(Ok(())))
}

/// A statement that can be run again.
#[derive(Clone)]
struct Statement {
    sql: SqlStr,
    arguments: Option<PgArguments>,
    is_persistent: bool,
}

impl Statement {
    fn of<'q>(mut query: impl Execute<'q, Postgres>) -> sqlx::Result<Self> {
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?;
        let is_persistent = query.persistent();
        Ok(Self { sql: query.sql(), arguments, is_persistent })
    }

    /// The statement for another time, if it may be a read.
    fn again(&self) -> Option<Self> {
        let may_read = first_word(self.sql.as_str()).is_some_and(|word| ["select", "with"].contains(&word));
        may_read.then(|| self.clone())
    }

    fn is_read(&self) -> bool {
        is_read(self.sql.as_str())
    }
}

impl Execute<'_, Postgres> for Statement {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&PgStatement> {
        None
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        Ok(self.arguments.take())
    }

    fn persistent(&self) -> bool {
        self.is_persistent
    }
}

/// The words of a statement without its comments.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let code = sql.lines().filter_map(|line| line.split("--").next());
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.flat_map(move |line| line.split(move |c: char| !is_part(c)).filter(|word| !word.is_empty()))
}

fn first_word(sql: &str) -> Option<&str> {
    words(sql).next()
}

/// Whether a statement surely changes nothing: it does not name what writes, and calls no function of Houston, which may.
fn is_read(sql: &str) -> bool {
    const WRITES: [&str; 10] =
        ["insert", "update", "delete", "merge", "truncate", "call", "do", "copy", "nextval", "setval"];
    let may_write = |word: &str| {
        WRITES.contains(&word)
            || ["pg_notify", "set_config"].contains(&word)
            || ["pg_advisory", "pg_try_advisory", "pg_terminate", "pg_cancel"]
                .iter()
                .any(|name| word.starts_with(name))
    };
    let calls_houston = sql.match_indices("houston.").any(|(at, name)| {
        sql[at + name.len()..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').starts_with('(')
    });
    first_word(sql).is_some_and(|word| ["select", "with"].contains(&word))
        && !calls_houston
        && !words(sql).any(may_write)
}

/// The methods of an [`Executor`] besides `fetch_many`, for a type whose `fetch_many` reads all rows before it returns them, and
/// whose field `pool` prepares and describes statements.
macro_rules! rest_of_executor {
    ($p:lifetime) => {
        fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
        where
            $p: 'e,
            E: 'q + Execute<'q, Postgres>,
        {
            let rows = self.fetch_many(query).try_filter_map(|row| std::future::ready(Ok(row.right())));
            Box::pin(async move { std::pin::pin!(rows).try_next().await })
        }

        fn prepare_with<'e>(
            self,
            sql: sqlx::SqlStr,
            parameters: &'e [sqlx::postgres::PgTypeInfo],
        ) -> BoxFuture<'e, sqlx::Result<sqlx::postgres::PgStatement>>
        where
            $p: 'e,
        {
            self.pool.prepare_with(sql, parameters)
        }

        fn describe<'e>(self, sql: sqlx::SqlStr) -> BoxFuture<'e, sqlx::Result<sqlx::Describe<Postgres>>>
        where
            $p: 'e,
        {
            self.pool.describe(sql)
        }
    };
}
pub(crate) use rest_of_executor;

impl<'p> Executor<'p> for &'_ Connections {
    type Database = Postgres;

    /// The rows come when all of them are read.
    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let (this, statement) = (self.clone(), Statement::of(query));
        let all = async move {
            let statement = statement?;
            let again = statement.again();
            let all = match (this.all(statement).await, again) {
                (Err(error), Some(again)) if this.is_lost(&error) && again.is_read() => this.all(again).await,
                (done, _) => done,
            };
            Ok::<_, sqlx::Error>(stream::iter(all?.into_iter().map(Ok)))
        };
        stream::once(all).try_flatten().boxed()
    }

    rest_of_executor!('p);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_surely_changes_nothing_is_read_again() {
        let reads = [
            "-- store::goal::get\nselect updated_at from houston.goals g where id = $1",
            "with x as (select 1) select * from x -- insert nothing",
            "select count(*) from houston.deliveries",
        ];
        let writes = [
            "-- store::x::y\nwith gone as (delete from houston.goals) select 1",
            "select houston.post_message($1)",
            "select pg_notify('houston', 'x')",
            "select from houston.webhooks for update",
            "select pg_advisory_xact_lock(1)",
            "insert into houston.goals values (1)",
            "update houston.goals set title = 'select'",
            "",
        ];
        for read in reads {
            assert!(is_read(read), "{read}");
        }
        for write in writes {
            assert!(!is_read(write), "{write}");
        }
    }

    #[test]
    fn shares_add_up_and_nobody_has_none() {
        assert_eq!(Sizes::divide(20, 35, 20), Sizes { requests: 9, runs: 7, background: 4 });
        assert_eq!(Sizes::divide(1, 35, 20), Sizes::ones());
        for all in 3..200 {
            let Sizes { requests, runs, background } = Sizes::divide(all, 35, 20);
            assert_eq!(requests + runs + background, all);
        }
    }
}
