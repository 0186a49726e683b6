//! A Postgres and a Redis of a test's own: empty, quick, gone afterwards, and open to violence.
//!
//! They are started like those of `houston dev` (crate `embedded`), in a fresh temporary folder, with fsync off.
//! A killed server loses nothing all the same; only a power cut would.
//!
//! Every call blocks for the time it takes to start or stop a server (some 0.1 s, the first start 0.7 s).

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use houston_embedded::{Config, Servers};
use tempfile::TempDir;

use crate::psql::Psql;
use crate::signal::signal;

/// Throw-away servers; dropping them stops them and removes their folder.
#[derive(Debug)]
pub struct TestServers {
    // Before the folder, so that they are stopped before it is removed.
    servers: Servers,
    database_url: String,
    redis_url: String,
    folder: TempDir,
}

impl TestServers {
    /// Starts both, with an empty database `houston` and an empty Redis.
    ///
    /// # Errors
    ///
    /// When PostgreSQL or Redis is not installed or does not come up.
    pub fn start() -> io::Result<Self> {
        Self::start_with(|_| {})
    }

    /// The same, after `change` has had its way with the configuration (more connections, fsync on, only one of them).
    ///
    /// # Errors
    ///
    /// When PostgreSQL or Redis is not installed or does not come up.
    pub fn start_with(change: impl FnOnce(&mut Config)) -> io::Result<Self> {
        Self::start_telling(change, &mut |_| {})
    }

    /// The same, telling `progress` in plain lines of what takes time: an installation, if `change` allowed one.
    ///
    /// # Errors
    ///
    /// When PostgreSQL or Redis is not installed or does not come up.
    pub fn start_telling(
        change: impl FnOnce(&mut Config),
        progress: &mut dyn FnMut(&str),
    ) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("houston-test-").tempdir()?;
        // Under root, Postgres runs as another user, who must be able to pass.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let mut config = Config::new(folder.path().join("houston"));
        config.path = std::env::var_os("PATH");
        config.fsync = false;
        change(&mut config);
        let servers = Servers::start(&config, progress).map_err(io::Error::other)?;
        let database_url = servers.database_url().unwrap_or_default().to_owned();
        let redis_url = servers.redis_url().unwrap_or_default().to_owned();
        Ok(Self { servers, database_url, redis_url, folder })
    }

    /// For sqlx and psql. Empty when there is no Postgres.
    #[must_use]
    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// For the `redis` crate. Empty when there is no Redis.
    #[must_use]
    pub fn redis_url(&self) -> &str {
        &self.redis_url
    }

    /// Runs statements with `psql` and returns what they answer: a row a line, fields parted by `|`.
    ///
    /// # Errors
    ///
    /// When Postgres refuses them (its words are in the error), or `psql` is not there.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        Psql::of(&self.database_url, self.postgres_pid()).run(statements)
    }

    /// The folder with `postgres.log` and `redis.log`, for a test that failed.
    #[must_use]
    pub fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("houston")
    }

    /// The postmaster's process id; another one after each restart.
    #[must_use]
    pub fn postgres_pid(&self) -> Option<u32> {
        self.servers.postgres_pid()
    }

    /// The process id of Redis; another one after each restart.
    #[must_use]
    pub fn redis_pid(&self) -> Option<u32> {
        self.servers.redis_pid()
    }

    /// Kills the postmaster as `kill -9` does, and leaves it dead until [`Self::restart_postgres`].
    ///
    /// # Errors
    ///
    /// When it is dead already.
    pub fn kill_postgres(&self) -> io::Result<()> {
        signal("KILL", self.postgres_pid())
    }

    /// Kills Redis as `kill -9` does, and leaves it dead until [`Self::restart_redis`].
    ///
    /// # Errors
    ///
    /// When it is dead already.
    pub fn kill_redis(&self) -> io::Result<()> {
        signal("KILL", self.redis_pid())
    }

    /// Starts Postgres again on the same data, after a fast shutdown if it still runs.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn restart_postgres(&mut self) -> io::Result<()> {
        self.servers.restart_postgres().map_err(io::Error::other)
    }

    /// Starts Redis again on the same data, after a shutdown if it still runs.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn restart_redis(&mut self) -> io::Result<()> {
        self.servers.restart_redis().map_err(io::Error::other)
    }

    /// Stalls Redis: it accepts connections and answers nobody until [`Self::resume_redis`].
    ///
    /// # Errors
    ///
    /// When it is dead.
    pub fn stall_redis(&self) -> io::Result<()> {
        signal("STOP", self.redis_pid())
    }

    /// Ends a stall.
    ///
    /// # Errors
    ///
    /// When Redis is dead.
    pub fn resume_redis(&self) -> io::Result<()> {
        signal("CONT", self.redis_pid())
    }
}

impl Drop for TestServers {
    fn drop(&mut self) {
        // A stalled Redis would not hear that it should stop. A dead one does not matter.
        let _ = self.resume_redis();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::TestServers;

    /// One inline command and the beginning of its answer; `None` when there is none within 0.2 s.
    fn redis(servers: &TestServers, command: &str) -> Option<String> {
        let mut stream = UnixStream::connect(servers.redis_url().strip_prefix("redis+unix://")?).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
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
        assert_eq!(redis(&servers, "GET k"), None);
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
