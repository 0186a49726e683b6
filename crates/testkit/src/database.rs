//! A migrated database for one test.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio::runtime::Builder;

use crate::psql::Psql;
use crate::servers::TestServers;
use crate::shared_postgres::SharedPostgres;

/// A database with Houston's schema and no rows; removed when this is dropped.
///
/// The migrations are not part of this crate: the caller's `migrate` gets the URL of an empty database, applies them and
/// closes its connections.
#[derive(Debug)]
pub struct TestDatabase {
    psql: Psql,
    /// The shared server, with the name of this database there.
    shared: Option<(SharedPostgres, String)>,
    own: Option<TestServers>,
}

impl TestDatabase {
    /// A database on the Postgres shared by all tests of this run, for tests that do not stop, fill or configure the
    /// server.
    ///
    /// The first call of the run starts that Postgres and lets `migrate` fill a template; each call clones the template
    /// (about 30 ms). The server has databases of other tests: queries of `pg_stat_activity` and similar views must
    /// filter by `current_database()`.
    ///
    /// ```ignore
    /// let database = TestDatabase::shared(|url| async move { migrate(&url).await.unwrap() })?;
    /// assert_eq!(database.sql("select count(*) from houston.runs")?, "0");
    /// ```
    ///
    /// # Errors
    ///
    /// If PostgreSQL is not installed or does not start, or the test crate lacks
    /// [`shared_postgres!`](crate::shared_postgres!).
    pub fn shared(migrate: impl AsyncFnOnce(String) + Send) -> io::Result<Self> {
        Self::shared_from("template_houston", migrate)
    }

    /// Like [`Self::shared`], with another template. The name identifies the template in the whole test run, across
    /// test crates.
    ///
    /// # Errors
    ///
    /// As [`Self::shared`].
    pub fn shared_from(template: &str, migrate: impl AsyncFnOnce(String) + Send) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let postgres = SharedPostgres::find_or_start()?;
        postgres.make_template(template, |url| block_on(migrate, url))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        postgres.psql.run(&format!("create database {name} template {template} strategy file_copy"))?;
        Ok(Self { psql: postgres.psql.for_database(&name), shared: Some((postgres, name)), own: None })
    }

    /// A database on its own Postgres, for tests that stop, kill, fill or configure the server, or read its log. Takes
    /// about a second.
    ///
    /// # Errors
    ///
    /// If PostgreSQL is not installed or does not start.
    pub fn on_own_server(migrate: impl AsyncFnOnce(String) + Send) -> io::Result<Self> {
        let servers = TestServers::start_with(|config| config.redis = false)?;
        let url = servers.database_url().to_owned();
        block_on(migrate, url.clone())?;
        Ok(Self { psql: Psql::of(&url, servers.postgres_pid(), false), shared: None, own: Some(servers) })
    }

    /// The URL for sqlx and psql.
    pub fn url(&self) -> &str {
        self.psql.url()
    }

    /// Executes statements in one transaction; returns the rows, one per line, with fields separated by `|`.
    ///
    /// # Errors
    ///
    /// If Postgres rejects a statement: the error has its message.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        self.psql.run(statements)
    }

    /// A `psql` command with these statements, for tests that start it in the background.
    pub fn psql(&self, statements: &str) -> Command {
        self.psql.command(statements)
    }

    /// The server of a database made by [`Self::on_own_server`].
    ///
    /// # Errors
    ///
    /// If the server is shared with other tests.
    pub fn server(&self) -> io::Result<&TestServers> {
        self.own.as_ref().ok_or_else(is_shared)
    }

    /// Like [`Self::server`], mutable.
    ///
    /// # Errors
    ///
    /// If the server is shared with other tests.
    pub fn server_mut(&mut self) -> io::Result<&mut TestServers> {
        self.own.as_mut().ok_or_else(is_shared)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Some((postgres, name)) = &self.shared {
            self.psql.end_sessions();
            // Ends connections that are still open. If this fails, the database is removed with the server.
            let _ = postgres.psql.run(&format!("drop database {name} with (force)"));
        }
    }
}

fn is_shared() -> io::Error {
    io::Error::other(
        "this Postgres is shared with other tests: use `on_own_server` or `start_with_own_postgres`",
    )
}

/// Runs `migrate` to its end on a thread, since the caller may already be in a runtime.
fn block_on(migrate: impl AsyncFnOnce(String) + Send, url: String) -> io::Result<()> {
    let run = || {
        Builder::new_current_thread().enable_all().build()?.block_on(migrate(url));
        Ok(())
    };
    let migrated = thread::scope(|scope| scope.spawn(run).join());
    migrated.unwrap_or_else(|_| Err(io::Error::other("the migrations of the test database failed")))
}
