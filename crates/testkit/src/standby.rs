//! A second Postgres that follows the first.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::child::output;
use crate::psql::program;
use crate::scratch::Scratch;
use crate::servers::{TestServers, inside};

/// How long a standby may take until it follows.
const PATIENCE: Duration = Duration::from_secs(60);

impl TestServers {
    /// The socket of Postgres.
    ///
    /// # Errors
    ///
    /// If these servers have no Postgres.
    pub fn postgres_socket(&self) -> io::Result<PathBuf> {
        let folder = self.database_url().split("host=").nth(1).and_then(|rest| rest.split('&').next());
        folder
            .map(|folder| Path::new(folder).join(".s.PGSQL.5432"))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Starts a Postgres with a copy of this one's data, which follows it. This one acknowledges a commit from then on when
    /// the standby has it too; promoted, the standby waits for no other.
    ///
    /// # Errors
    ///
    /// If the data cannot be copied, or the standby does not start or does not follow.
    pub fn start_standby(&self) -> io::Result<Self> {
        let folder = Scratch::new()?;
        fs::create_dir(inside(&folder))?;
        let (socket, data) = (self.postgres_socket()?, inside(&folder).join("pg"));
        let mut copy = Command::new(program("pg_basebackup", self.postgres_pid()));
        copy.args(["--username=houston", "--checkpoint=fast", "--write-recovery-conf", "--no-sync"]);
        copy.arg("--host").arg(socket.parent().unwrap_or(&socket)).arg("--pgdata").arg(&data);
        output(&mut copy).map_err(io::Error::other)?;
        let owner = fs::metadata(self.folder().join("pg"))?;
        let owner = format!("{}:{}", owner.uid(), owner.gid());
        output(Command::new("chown").args(["-R", "-h", &owner]).arg(&data)).map_err(io::Error::other)?;
        let max_connections = self.sql("show max_connections")?.parse().map_err(io::Error::other)?;
        let change = |config: &mut houston_embedded::Config| {
            config.redis = false;
            // With fewer it would not follow.
            config.max_connections = max_connections;
        };
        let standby = Self::start_in(folder, change, &mut |_| {})?;
        // After the copy, so that the standby does not get this.
        self.sql("alter system set synchronous_standby_names = '*'")?;
        self.sql("select pg_reload_conf()")?;
        let begun = Instant::now();
        while self.sql("select count(*) from pg_stat_replication where sync_state = 'sync'")? != "1" {
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::other("the standby does not follow"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(standby)
    }

    /// Makes a standby the primary, and waits until it is.
    ///
    /// # Errors
    ///
    /// If it is none, or is not promoted within 30 s.
    pub fn promote(&self) -> io::Result<()> {
        match self.sql("select pg_promote(true, 30)")?.as_str() {
            "t" => Ok(()),
            _ => Err(io::Error::other("the standby was not promoted")),
        }
    }
}
