//! A migrated database of a test's own.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio::runtime::Builder;

use crate::psql::Psql;
use crate::servers::TestServers;
use crate::shared_postgres::SharedPostgres;

/// A database with the schema of Houston and no rows in it; dropping it removes it.
///
/// This crate does not know the schema's migrations: the caller's `migrate` applies them to an empty database, of
/// which it gets the URL, and closes its connections.
#[derive(Debug)]
pub struct TestDatabase {
    psql: Psql,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Shared { postgres: SharedPostgres, name: String },
    Own(Box<TestServers>),
}

impl TestDatabase {
    /// A database on the Postgres that all tests of this run share: for tests that leave the server alone.
    ///
    /// The first call of the run starts that Postgres and has `migrate` fill a template; each call clones the template
    /// (some 30 ms). Other databases of the server belong to other tests, so queries over `pg_stat_activity` and the
    /// like must filter by `current_database()`.
    ///
    /// # Errors
    ///
    /// When PostgreSQL is not installed or does not come up, or the test crate lacks
    /// [`shared_postgres!`](crate::shared_postgres!).
    pub fn shared<F>(migrate: impl FnOnce(String) -> F + Send) -> io::Result<Self>
    where
        F: Future<Output = ()>,
    {
        Self::shared_from("template_houston", migrate)
    }

    /// The same with another template than the one with the schema of Houston. A template of a run has one name,
    /// whichever test crate fills it.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn shared_from<F>(template: &str, migrate: impl FnOnce(String) -> F + Send) -> io::Result<Self>
    where
        F: Future<Output = ()>,
    {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let postgres = SharedPostgres::find_or_start()?;
        postgres.make_template(template, |url| block_on(migrate, url))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        postgres.psql.run(&format!("create database {name} template {template} strategy file_copy"))?;
        Ok(Self { psql: postgres.psql.for_database(&name), server: Server::Shared { postgres, name } })
    }

    /// A database on a Postgres of its own: for tests that stop, kill, fill or configure the server, or read its log.
    /// Takes about a second.
    ///
    /// # Errors
    ///
    /// When PostgreSQL is not installed or does not come up.
    pub fn on_own_server<F>(migrate: impl FnOnce(String) -> F + Send) -> io::Result<Self>
    where
        F: Future<Output = ()>,
    {
        let servers = TestServers::start_with(|config| config.redis = false)?;
        let url = servers.database_url().to_owned();
        block_on(migrate, url.clone())?;
        Ok(Self { psql: Psql::of(&url, servers.postgres_pid()), server: Server::Own(Box::new(servers)) })
    }

    /// For sqlx and psql.
    #[must_use]
    pub fn url(&self) -> &str {
        self.psql.url()
    }

    /// Runs statements, all in one transaction, with `psql` and returns what they answer: a row a line, fields parted
    /// by `|`.
    ///
    /// # Errors
    ///
    /// When Postgres refuses them (its words are in the error), or `psql` is not there.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        self.psql.run(statements)
    }

    /// `psql` with these statements, for a test that starts it and goes on.
    #[must_use]
    pub fn psql(&self, statements: &str) -> Command {
        self.psql.command(statements)
    }

    /// The server of a database that has one of its own, to be killed, restarted and read.
    ///
    /// # Errors
    ///
    /// When the server is shared with other tests.
    pub fn server(&self) -> io::Result<&TestServers> {
        match &self.server {
            Server::Own(servers) => Ok(servers),
            Server::Shared { .. } => Err(shared()),
        }
    }

    /// The same, to be changed.
    ///
    /// # Errors
    ///
    /// When the server is shared with other tests.
    pub fn server_mut(&mut self) -> io::Result<&mut TestServers> {
        match &mut self.server {
            Server::Own(servers) => Ok(servers),
            Server::Shared { .. } => Err(shared()),
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Server::Shared { postgres, name } = &self.server {
            // Connections that are still open end. If this fails, the database goes with the server.
            let _ = postgres.psql.run(&format!("drop database {name} with (force)"));
        }
    }
}

fn shared() -> io::Error {
    io::Error::other("other tests use this Postgres, too: start the test with a server of its own")
}

/// Runs `migrate` to its end, whether or not the caller is in a runtime.
fn block_on<F>(migrate: impl FnOnce(String) -> F + Send, url: String) -> io::Result<()>
where
    F: Future<Output = ()>,
{
    let run = || {
        Builder::new_current_thread().enable_all().build()?.block_on(migrate(url));
        Ok(())
    };
    let migrated = thread::scope(|scope| scope.spawn(run).join());
    migrated.unwrap_or_else(|_| Err(io::Error::other("the database could not be migrated")))
}
