//! An empty Postgres and Redis for one test, which it may kill, stall and restart.
//!
//! They are started like those of `houston dev` (crate `embedded`), in a new temporary folder, with fsync off. A killed
//! server loses nothing; only a crash of the machine could.
//!
//! Calls block while a server starts or stops (about 0.1 s, the first start 0.7 s).

use std::io;
use std::path::PathBuf;

use houston_embedded::{Config, Servers};
use rustix::process::Signal;

use crate::process::signal;
use crate::psql::Psql;
use crate::scratch::Scratch;

/// Throw-away servers. Dropping this stops them and removes their folder.
#[derive(Debug)]
pub struct TestServers {
    // Before the folder, so that they are stopped before it is removed.
    servers: Servers,
    folder: Scratch,
}

impl TestServers {
    /// Starts both, with an empty database `houston` and an empty Redis.
    ///
    /// # Errors
    ///
    /// If PostgreSQL or Redis is not installed or does not start.
    pub fn start() -> io::Result<Self> {
        Self::start_with(|_| {})
    }

    /// Like [`Self::start`], with a configuration changed by `change`: for example more connections, fsync on, or only
    /// one of the servers.
    ///
    /// # Errors
    ///
    /// If PostgreSQL or Redis is not installed or does not start.
    pub fn start_with(change: impl FnOnce(&mut Config)) -> io::Result<Self> {
        Self::start_in(Scratch::new()?, change, &mut |_| {})
    }

    /// Starts them in `folder`, with the data that are there.
    pub(crate) fn start_in(
        folder: Scratch,
        change: impl FnOnce(&mut Config),
        progress: &mut dyn FnMut(&str),
    ) -> io::Result<Self> {
        let mut config = Config::new(inside(&folder));
        config.path = std::env::var_os("PATH");
        config.fsync = false;
        change(&mut config);
        let servers = Servers::start(&config, progress).map_err(io::Error::other)?;
        Ok(Self { servers, folder })
    }

    /// The database URL for sqlx and psql; empty without Postgres.
    pub fn database_url(&self) -> &str {
        self.servers.database_url().unwrap_or_default()
    }

    /// The URL for the `redis` crate; empty without Redis.
    pub fn redis_url(&self) -> &str {
        self.servers.redis_url().unwrap_or_default()
    }

    /// Executes statements; returns the rows, one per line, with fields separated by `|`.
    ///
    /// # Errors
    ///
    /// If Postgres rejects a statement: the error has its message.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        self.psql().run(statements)
    }

    /// A client of Postgres that outlives this handle.
    pub fn psql(&self) -> Psql {
        Psql::of(self.database_url(), self.postgres_pid(), false)
    }

    /// The folder with `postgres.log` and `redis.log`.
    pub fn folder(&self) -> PathBuf {
        inside(&self.folder)
    }

    /// Process id of the postmaster; it changes with each restart.
    pub fn postgres_pid(&self) -> Option<u32> {
        self.servers.postgres_pid()
    }

    /// Process id of Redis; it changes with each restart.
    pub fn redis_pid(&self) -> Option<u32> {
        self.servers.redis_pid()
    }

    /// Kills the postmaster (SIGKILL). It stays down until [`Self::restart_postgres`].
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill_postgres(&self) -> io::Result<()> {
        signal(Signal::KILL, self.postgres_pid())
    }

    /// Kills Redis (SIGKILL). It stays down until [`Self::restart_redis`].
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill_redis(&self) -> io::Result<()> {
        signal(Signal::KILL, self.redis_pid())
    }

    /// Restarts Postgres on the same data, after a fast shutdown if it is running.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn restart_postgres(&mut self) -> io::Result<()> {
        self.servers.restart_postgres().map_err(io::Error::other)
    }

    /// Restarts Redis on the same data, after a shutdown if it is running.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn restart_redis(&mut self) -> io::Result<()> {
        self.servers.restart_redis().map_err(io::Error::other)
    }

    /// Stalls Redis (SIGSTOP): it accepts connections but does not answer until [`Self::resume_redis`].
    ///
    /// # Errors
    ///
    /// If Redis is not running.
    pub fn stall_redis(&self) -> io::Result<()> {
        signal(Signal::STOP, self.redis_pid())
    }

    /// Ends a stall (SIGCONT).
    ///
    /// # Errors
    ///
    /// If Redis is not running.
    pub fn resume_redis(&self) -> io::Result<()> {
        signal(Signal::CONT, self.redis_pid())
    }
}

/// The servers' own folder in a temporary one.
pub(crate) fn inside(folder: &Scratch) -> PathBuf {
    folder.path().join("houston")
}

impl Drop for TestServers {
    fn drop(&mut self) {
        // A stalled Redis would not react to a shutdown request. An error does not matter: it is not running.
        let _ = self.resume_redis();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::TestServers;

    /// Sends an inline command; returns the beginning of the answer.
    fn redis(servers: &TestServers, command: &str) -> Option<String> {
        redis_within(servers, command, Duration::from_secs(60))
    }

    fn redis_within(servers: &TestServers, command: &str, patience: Duration) -> Option<String> {
        let mut stream = UnixStream::connect(servers.redis_url().strip_prefix("redis+unix://")?).ok()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = [0; 64];
        let length = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    #[test]
    fn servers_are_killed_stalled_restarted_and_removed() {
        let mut servers = TestServers::start().unwrap();
        let folder = servers.folder();
        assert_eq!(redis(&servers, "SET k v").as_deref(), Some("+OK\r\n"));

        servers.stall_redis().unwrap();
        assert_eq!(redis_within(&servers, "GET k", Duration::from_millis(200)), None);
        servers.resume_redis().unwrap();
        assert_eq!(redis(&servers, "GET k").as_deref(), Some("$1\r\nv\r\n"));

        let (postgres, queue) = (servers.postgres_pid(), servers.redis_pid());
        servers.kill_redis().unwrap();
        servers.restart_redis().unwrap();
        assert_eq!(redis(&servers, "GET k").as_deref(), Some("$1\r\nv\r\n"));
        servers.kill_postgres().unwrap();
        servers.restart_postgres().unwrap();
        servers.restart_postgres().unwrap();
        assert_ne!(servers.postgres_pid(), postgres);
        assert_ne!(servers.redis_pid(), queue);

        servers.stall_redis().unwrap();
        drop(servers);
        assert!(!folder.exists());
    }
}
