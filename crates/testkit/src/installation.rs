//! A migrated database and a Redis for one test.

use std::io;
use std::process::Command;

use crate::database::TestDatabase;
use crate::houston;
use crate::servers::TestServers;

/// A migrated database and a Redis, for each cell; they are removed when this is dropped. What is done to a server is done
/// to those of all cells.
///
/// The Redis is a separate process (it starts in 20 ms), so that a test may kill, stall and flush it, and keys and
/// channels are not shared with other tests.
#[derive(Debug)]
pub struct TestInstallation {
    database: TestDatabase,
    redis: TestServers,
    /// The servers of the cells after the first.
    pub others: Vec<Self>,
}

/// The variable with the number of cells, which `cargo xtask test --cells` sets.
const CELLS: &str = "XTASK_CELLS";

/// The number of cells that tests of the whole service use: usually one.
pub fn cell_count() -> u32 {
    #[expect(clippy::disallowed_methods, reason = "a test has no command line")]
    let count = std::env::var(CELLS).ok().and_then(|count| count.parse().ok());
    count.filter(|count| (1..=16).contains(count)).unwrap_or(1)
}

impl TestInstallation {
    /// Uses the Postgres shared by all tests of this run: see [`TestDatabase::shared`].
    ///
    /// # Errors
    ///
    /// If PostgreSQL or Redis is not installed or does not start, or the test crate lacks
    /// [`shared_postgres!`](crate::shared_postgres!).
    pub fn start(migrate: impl AsyncFnOnce(String) + Send) -> io::Result<Self> {
        Self::over(TestDatabase::shared(migrate)?)
    }

    /// Uses its own Postgres: see [`TestDatabase::on_own_server`].
    ///
    /// # Errors
    ///
    /// If PostgreSQL or Redis is not installed or does not start.
    pub fn start_with_own_postgres(migrate: impl AsyncFnOnce(String) + Send) -> io::Result<Self> {
        Self::over(TestDatabase::on_own_server(migrate)?)
    }

    /// Adds a Redis to a database.
    ///
    /// # Errors
    ///
    /// If Redis is not installed or does not start.
    pub fn over(database: TestDatabase) -> io::Result<Self> {
        let redis = TestServers::start_with(|config| config.postgres = false)?;
        Ok(Self { database, redis, others: Vec::new() })
    }

    /// The same installation with the servers of more cells.
    pub fn with_cells(self, others: Vec<Self>) -> Self {
        Self { others, ..self }
    }

    /// The servers of all cells, in the order of their shards.
    pub fn cells(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// The first and the last shard of each cell, and its servers.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32, &Self)> {
        let count = u32::try_from(self.others.len()).unwrap_or(0) + 1;
        let first = move |nth: u32| nth * 0x1_0000 / count;
        self.cells().zip(0..).map(move |(cell, nth)| (first(nth), first(nth + 1) - 1, cell))
    }

    /// The environment by which `houston` finds the servers.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        houston::environment(self.cells().map(|cell| (cell.database_url(), cell.redis_url())))
    }

    /// The database URL for sqlx and psql.
    pub fn database_url(&self) -> &str {
        self.database.url()
    }

    /// The URL for the `redis` crate.
    pub fn redis_url(&self) -> &str {
        self.redis.redis_url()
    }

    /// Executes statements with `psql` in one transaction; returns the rows, one per line, with fields separated by `|`.
    /// With several cells: in each, one after the other; returns the sum if each returns a number, else all rows.
    ///
    /// # Errors
    ///
    /// If Postgres rejects a statement (the error has its message) or `psql` is not installed.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        let rows: Vec<String> =
            self.cells().map(|cell| cell.database.sql(statements)).collect::<io::Result<_>>()?;
        let numbers: Option<Vec<i64>> = rows.iter().map(|rows| rows.parse().ok()).collect();
        Ok(match numbers {
            Some(numbers) if !self.others.is_empty() => numbers.iter().sum::<i64>().to_string(),
            _ => rows.into_iter().filter(|rows| !rows.is_empty()).collect::<Vec<_>>().join("\n"),
        })
    }

    /// Executes statements in the cell that has this id: a public id or a UUID.
    ///
    /// # Errors
    ///
    /// As [`Self::sql`].
    pub fn sql_of(&self, id: &str, statements: &str) -> io::Result<String> {
        let digits = id.get(id.len().saturating_sub(4)..).unwrap_or_default();
        let shard = u32::from_str_radix(digits, 16).unwrap_or(0);
        let cell = self.ranges().find(|(first, last, _)| (first..=last).contains(&&shard));
        cell.map_or(self, |(_, _, cell)| cell).database.sql(statements)
    }

    /// A `psql` command with these statements for the first cell, for tests that start it in the background.
    pub fn psql(&self, statements: &str) -> Command {
        self.database.psql(statements)
    }

    /// The log of Postgres.
    ///
    /// # Errors
    ///
    /// If the Postgres is shared with other tests, or its log cannot be read.
    pub fn postgres_log(&self) -> io::Result<String> {
        std::fs::read_to_string(self.database.server()?.folder().join("postgres.log"))
    }

    /// Kills Postgres (SIGKILL). It stays down until [`Self::restart_postgres`].
    ///
    /// # Errors
    ///
    /// If the Postgres is shared with other tests, or not running.
    pub fn kill_postgres(&self) -> io::Result<()> {
        self.cells().try_for_each(Self::kill_postgres_of_cell)
    }

    /// Kills Postgres of this cell only.
    ///
    /// # Errors
    ///
    /// If the Postgres is shared with other tests, or not running.
    pub fn kill_postgres_of_cell(&self) -> io::Result<()> {
        self.database.server()?.kill_postgres()
    }

    /// Restarts Postgres on the same data, after a fast shutdown if it is running.
    ///
    /// # Errors
    ///
    /// If the Postgres is shared with other tests, or does not start.
    pub fn restart_postgres(&mut self) -> io::Result<()> {
        self.database.server_mut()?.restart_postgres()?;
        self.others.iter_mut().try_for_each(Self::restart_postgres)
    }

    /// Kills Redis (SIGKILL). It stays down until [`Self::restart_redis`].
    ///
    /// # Errors
    ///
    /// If Redis is not running.
    pub fn kill_redis(&self) -> io::Result<()> {
        self.cells().try_for_each(|cell| cell.redis.kill_redis())
    }

    /// Restarts Redis on the same data, after a shutdown if it is running.
    ///
    /// # Errors
    ///
    /// If Redis does not start.
    pub fn restart_redis(&mut self) -> io::Result<()> {
        self.redis.restart_redis()?;
        self.others.iter_mut().try_for_each(Self::restart_redis)
    }
}
