//! One Postgres shared by all tests of a run.
//!
//! The first test that needs it starts it; the others find it in a folder named after the runner (`cargo nextest` or
//! `cargo test`). Since no test lives as long as the run, Postgres belongs to a separate process: a copy of the first
//! test's program that runs only the test defined by [`shared_postgres!`](crate::shared_postgres!). It watches the
//! runner, and stops Postgres and removes the folder once the runner has ended, however it ended.
//!
//! ```text
//! <parent>/houston-tests-<runner>/lock       held while a process starts Postgres or creates a template
//! <parent>/houston-tests-<runner>/serving    held by the process that runs Postgres, for as long as it lives
//! <parent>/houston-tests-<runner>/server     its URL and the postmaster's process id, once it accepts connections
//! <parent>/houston-tests-<runner>/templates  a file per complete template database
//! ```
//!
//! The parent is `/dev/shm` where that is large enough, else `/tmp`. Each test makes and removes a database of 900 files. On
//! ext4, making a file right after others were removed means looking at each of their inodes: with thousands of them that was
//! half of the processor time of most tests.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use houston_embedded::{Config, Servers};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::psql::Psql;

/// File systems in memory have it; its size does not change during a run, as its free space does.
const MEMORY: &str = "/dev/shm";
/// From this size on, [`MEMORY`] is used: some hundred megabytes of it are needed.
const MEMORY_BYTES: u64 = 4 << 30;
/// Not `TMPDIR`: socket paths must be short, and `cargo xtask test` removes its `TMPDIR` at its end.
const DISK: &str = "/tmp";
/// Variables of the process that runs Postgres: its folder, and the process id of the runner.
const FOLDER: &str = "HOUSTON_TEST_POSTGRES_FOLDER";
const RUNNER: &str = "HOUSTON_TEST_POSTGRES_RUNNER";
/// The name of the test defined by [`shared_postgres!`](crate::shared_postgres!).
const TEST: &str = "shared_postgres";
/// `max_connections`: many tests with several pools each. Unused connections cost almost nothing.
const CONNECTIONS: u16 = 1000;
/// How often the process checks whether the runner still exists.
const WATCH: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(5);

/// The Postgres of this run; dropping this does not stop it.
#[derive(Debug)]
pub(crate) struct SharedPostgres {
    folder: PathBuf,
    pub(crate) psql: Psql,
}

impl SharedPostgres {
    /// Finds the server of this run, or starts it.
    ///
    /// # Errors
    ///
    /// If PostgreSQL is not installed or does not start, or the test program has no `shared_postgres` test.
    pub(crate) fn find_or_start() -> io::Result<Self> {
        let runner = runner();
        let folder = parent().join(format!("houston-tests-{runner}"));
        // Under root, Postgres runs as another user, who needs access to the folder.
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let _lock = lock(&folder)?;
        if !is_served(&folder)? {
            start(&folder, runner)?;
        }
        let server = fs::read_to_string(folder.join("server"))?;
        let (url, postmaster) = server.split_once('\n').ok_or(io::ErrorKind::InvalidData)?;
        let psql = Psql::of(url, postmaster.parse().ok(), true);
        Ok(Self { folder, psql })
    }

    /// Creates the template database `name` unless this run has it. `migrate` gets the URL of an empty database, fills
    /// it, and closes its connections.
    ///
    /// # Errors
    ///
    /// If Postgres or `migrate` fails.
    pub(crate) fn make_template(
        &self,
        name: &str,
        migrate: impl FnOnce(String) -> io::Result<()>,
    ) -> io::Result<()> {
        let _lock = lock(&self.folder)?;
        let complete = self.folder.join("templates").join(name);
        if !complete.exists() {
            // A process that tried before may have been killed half-way.
            self.psql.run(&format!("drop database if exists {name} with (force)"))?;
            self.psql.run(&format!("create database {name}"))?;
            migrate(self.psql.url_of(name))?;
            self.psql.run(&format!("alter database {name} allow_connections false"))?;
            fs::create_dir_all(self.folder.join("templates"))?;
            fs::write(complete, "")?;
        }
        Ok(())
    }
}

/// The folder with the folders of all runs.
fn parent() -> &'static Path {
    let bytes = rustix::fs::statvfs(MEMORY).map_or(0, |memory| memory.f_frsize * memory.f_blocks);
    Path::new(if bytes >= MEMORY_BYTES { MEMORY } else { DISK })
}

/// The process id of the runner: the parent if it is cargo or nextest, else this process.
fn runner() -> u32 {
    let is_run_by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    // Process 1 outlives every run and adopts orphans.
    Some(parent_id()).filter(|parent| is_run_by_cargo && *parent != 1).unwrap_or_else(std::process::id)
}

/// Takes the lock of the folder; waits while another process holds it. Dropping the file releases it.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::create(folder.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Whether a process runs Postgres in this folder. If not, the folder is left over from an earlier runner with the same
/// process id, and its contents are removed.
fn is_served(folder: &Path) -> io::Result<bool> {
    match File::create(folder.join("serving"))?.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => {
            for name in ["server", "templates", "postgres"] {
                let path = folder.join(name);
                if path.is_dir() {
                    fs::remove_dir_all(path)?;
                } else if path.exists() {
                    fs::remove_file(path)?;
                }
            }
            Ok(false)
        }
    }
}

/// Starts the process that runs Postgres; waits until Postgres accepts connections.
fn start(folder: &Path, runner: u32) -> io::Result<()> {
    let output = File::create(folder.join("output"))?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", TEST, "--nocapture"])
        .env(FOLDER, folder)
        .env(RUNNER, runner.to_string())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .current_dir("/")
        // Its own process group: Ctrl-C, and the runner ending a slow test, do not reach it.
        .process_group(0)
        .spawn()?;
    while !folder.join("server").exists() {
        if child.try_wait()?.is_some() {
            let output = fs::read_to_string(folder.join("output"))?;
            return Err(io::Error::other(format!(
                "the Postgres of this run did not start (does the root of this test crate have \
                 `houston_testkit::shared_postgres!();`?):\n{output}"
            )));
        }
        sleep(POLL);
    }
    Ok(())
}

/// Runs Postgres until the runner ends, if this process was started for that. Otherwise returns at once.
///
/// # Errors
///
/// If PostgreSQL is not installed or does not start, or the folder cannot be written to.
pub fn serve_if_requested() -> io::Result<()> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return Ok(()) };
    let runner = std::env::var_os(RUNNER).as_ref().and_then(|runner| runner.to_str()?.parse().ok());
    let runner = runner.and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let serving = File::create(folder.join("serving"))?;
    serving.lock()?;
    let mut config = Config::new(folder.join("postgres"));
    config.path = std::env::var_os("PATH");
    config.redis = false;
    config.fsync = false;
    config.max_connections = CONNECTIONS;
    config.postgres_settings.push("max_wal_size=256MB".to_owned());
    let servers = Servers::start(&config, &mut |_| {}).map_err(io::Error::other)?;
    let (Some(url), Some(postmaster)) = (servers.database_url(), servers.postgres_pid()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    // Written under another name and renamed, so that readers never see an incomplete file.
    let (draft, server) = (folder.join("server.new"), folder.join("server"));
    fs::write(&draft, format!("{url}\n{postmaster}"))?;
    fs::rename(draft, server)?;
    // A runner of another user also exists, although it may not be signalled (EPERM).
    while test_kill_process(runner) != Err(Errno::SRCH) {
        sleep(WATCH);
    }
    servers.stop().map_err(io::Error::other)?;
    fs::remove_dir_all(folder)
}

/// Defines the test `shared_postgres`, which runs the Postgres of a test run if its process was started for that, and
/// otherwise passes at once. Use it in the root of every test crate that calls
/// [`TestDatabase::shared`](crate::database::TestDatabase::shared).
#[macro_export]
macro_rules! shared_postgres {
    () => {
        /// Not a test: runs the Postgres of all tests, if its process was started for that.
        #[test]
        fn shared_postgres() {
            $crate::shared_postgres::serve_if_requested().unwrap();
        }
    };
}
