//! What a test runs Houston on: a migrated database and a Redis.

use std::io;
use std::process::Command;

use crate::database::TestDatabase;
use crate::servers::TestServers;

/// A migrated database and a Redis of a test's own; dropping it removes both.
///
/// The Redis is a process of its own (it starts in 20 ms), so that a test may kill, stall and empty it, and no key or
/// channel is another test's.
#[derive(Debug)]
pub struct TestInstallation {
    database: TestDatabase,
    redis: TestServers,
}

impl TestInstallation {
    /// With a database on the Postgres that all tests of this run share: see [`TestDatabase::shared`].
    ///
    /// # Errors
    ///
    /// When PostgreSQL or Redis is not installed or does not come up, or the test crate lacks
    /// [`shared_postgres!`](crate::shared_postgres!).
    pub fn start<F>(migrate: impl FnOnce(String) -> F + Send) -> io::Result<Self>
    where
        F: Future<Output = ()>,
    {
        Self::over(TestDatabase::shared(migrate)?)
    }

    /// With a Postgres of its own: see [`TestDatabase::on_own_server`].
    ///
    /// # Errors
    ///
    /// When PostgreSQL or Redis is not installed or does not come up.
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

    /// For sqlx and psql.
    #[must_use]
    pub fn database_url(&self) -> &str {
        self.database.url()
    }

    /// For the `redis` crate.
    #[must_use]
    pub fn redis_url(&self) -> &str {
        self.redis.redis_url()
    }

    /// Runs statements, all in one transaction, with `psql` and returns what they answer: a row a line, fields parted
    /// by `|`.
    ///
    /// # Errors
    ///
    /// When Postgres refuses them (its words are in the error), or `psql` is not there.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        self.database.sql(statements)
    }

    /// `psql` with these statements, for a test that starts it and goes on.
    #[must_use]
    pub fn psql(&self, statements: &str) -> Command {
        self.database.psql(statements)
    }

    /// What Postgres has logged.
    ///
    /// # Errors
    ///
    /// When the Postgres is shared with other tests, or its log cannot be read.
    pub fn postgres_log(&self) -> io::Result<String> {
        std::fs::read_to_string(self.database.server()?.folder().join("postgres.log"))
    }

    /// Kills Postgres as `kill -9` does, and leaves it dead until [`Self::restart_postgres`].
    ///
    /// # Errors
    ///
    /// When the Postgres is shared with other tests, or dead already.
    pub fn kill_postgres(&self) -> io::Result<()> {
        self.database.server()?.kill_postgres()
    }

    /// Starts Postgres again on the same data, after a fast shutdown if it still runs.
    ///
    /// # Errors
    ///
    /// When the Postgres is shared with other tests, or does not come up.
    pub fn restart_postgres(&mut self) -> io::Result<()> {
        self.database.server_mut()?.restart_postgres()
    }

    /// Kills Redis as `kill -9` does, and leaves it dead until [`Self::restart_redis`].
    ///
    /// # Errors
    ///
    /// When it is dead already.
    pub fn kill_redis(&self) -> io::Result<()> {
        self.redis.kill_redis()
    }

    /// Starts Redis again on the same data, after a shutdown if it still runs.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn restart_redis(&mut self) -> io::Result<()> {
        self.redis.restart_redis()
    }

    /// Stalls Redis: it accepts connections and answers nobody until [`Self::resume_redis`].
    ///
    /// # Errors
    ///
    /// When it is dead.
    pub fn stall_redis(&self) -> io::Result<()> {
        self.redis.stall_redis()
    }

    /// Ends a stall.
    ///
    /// # Errors
    ///
    /// When Redis is dead.
    pub fn resume_redis(&self) -> io::Result<()> {
        self.redis.resume_redis()
    }
}
