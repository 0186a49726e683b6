//! A migrated database and a Redis for one test.

use std::io;
use std::process::Command;

use crate::database::TestDatabase;
use crate::servers::TestServers;

/// A migrated database and a Redis; both are removed when this is dropped.
///
/// The Redis is a separate process (it starts in 20 ms), so that a test may kill, stall and flush it, and keys and
/// channels are not shared with other tests.
#[derive(Debug)]
pub struct TestInstallation {
    database: TestDatabase,
    redis: TestServers,
}

impl TestInstallation {
    /// Uses the Postgres shared by all tests of this run: see [`TestDatabase::shared`].
    ///
    /// # Errors
    ///
    /// If PostgreSQL or Redis is not installed or does not start, or the test crate lacks
    /// [`shared_postgres!`](crate::shared_postgres!).
    pub fn start<F>(migrate: impl FnOnce(String) -> F + Send) -> io::Result<Self>
    where
        F: Future<Output = ()>,
    {
        Self::over(TestDatabase::shared(migrate)?)
    }

    /// Uses its own Postgres: see [`TestDatabase::on_own_server`].
    ///
    /// # Errors
    ///
    /// If PostgreSQL or Redis is not installed or does not start.
    pub fn start_with_own_postgres<F>(migrate: impl FnOnce(String) -> F + Send) -> io::Result<Self>
    where
        F: Future<Output = ()>,
    {
        Self::over(TestDatabase::on_own_server(migrate)?)
    }

    fn over(database: TestDatabase) -> io::Result<Self> {
        let redis = TestServers::start_with(|config| config.postgres = false)?;
        Ok(Self { database, redis })
    }

    /// The database URL for sqlx and psql.
    #[must_use]
    pub fn database_url(&self) -> &str {
        self.database.url()
    }

    /// The URL for the `redis` crate.
    #[must_use]
    pub fn redis_url(&self) -> &str {
        self.redis.redis_url()
    }

    /// Executes statements with `psql` in one transaction; returns the rows, one per line, with fields separated by `|`.
    ///
    /// # Errors
    ///
    /// If Postgres rejects a statement (the error has its message) or `psql` is not installed.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        self.database.sql(statements)
    }

    /// A `psql` command with these statements, for tests that start it in the background.
    #[must_use]
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
        self.database.server()?.kill_postgres()
    }

    /// Restarts Postgres on the same data, after a fast shutdown if it is running.
    ///
    /// # Errors
    ///
    /// If the Postgres is shared with other tests, or does not start.
    pub fn restart_postgres(&mut self) -> io::Result<()> {
        self.database.server_mut()?.restart_postgres()
    }

    /// Kills Redis (SIGKILL). It stays down until [`Self::restart_redis`].
    ///
    /// # Errors
    ///
    /// If Redis is not running.
    pub fn kill_redis(&self) -> io::Result<()> {
        self.redis.kill_redis()
    }

    /// Restarts Redis on the same data, after a shutdown if it is running.
    ///
    /// # Errors
    ///
    /// If Redis does not start.
    pub fn restart_redis(&mut self) -> io::Result<()> {
        self.redis.restart_redis()
    }

    /// Stalls Redis (SIGSTOP): it accepts connections but does not answer until [`Self::resume_redis`].
    ///
    /// # Errors
    ///
    /// If Redis is not running.
    pub fn stall_redis(&self) -> io::Result<()> {
        self.redis.stall_redis()
    }

    /// Ends a stall (SIGCONT).
    ///
    /// # Errors
    ///
    /// If Redis is not running.
    pub fn resume_redis(&self) -> io::Result<()> {
        self.redis.resume_redis()
    }
}
