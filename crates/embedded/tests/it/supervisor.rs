//! Shared by the tests: folders, SQL, time-outs, and a supervisor in a process of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use houston_embedded::{Config, Servers};
use tempfile::TempDir;

/// The child's folder; without it the test `supervisor` below is empty.
const FOLDER: &str = "HOUSTON_TEST_SUPERVISE";

/// Time-out of everything tests wait for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A configuration without fsync, which tests cannot observe and which is slow on a busy machine.
pub(crate) fn config(folder: &Path) -> Config {
    Config { fsync: false, ..durable(folder) }
}

/// A configuration with fsync.
pub(crate) fn durable(folder: &Path) -> Config {
    Config { path: std::env::var_os("PATH"), ..Config::new(folder.join("houston")) }
}

pub(crate) fn start(folder: &Path) -> Servers {
    Servers::start(&config(folder), &mut |_| {}).unwrap()
}

/// A folder that any user may write to.
pub(crate) fn open_folder() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let builder = tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o777))
        .prefix("houston-test-")
        .tempdir();
    let folder = builder.unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    folder
}

/// Runs SQL with psql and returns what it prints.
pub(crate) fn sql(url: &str, statement: &str) -> Result<String, String> {
    let output =
        Command::new("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", url, "-c", statement]).output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

/// Sends one inline command to Redis and returns the first line of the answer (for a bulk reply, the second).
pub(crate) fn redis(url: &str, command: &str) -> String {
    use std::io::Write;
    let mut stream = UnixStream::connect(url.strip_prefix("redis+unix://").unwrap()).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let line = lines.next().unwrap().unwrap();
    if line.starts_with('$') { lines.next().unwrap().unwrap() } else { line }
}

/// Whether the tests run as root; some tests need it.
pub(crate) fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// Waits until the condition holds; panics after a time-out.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process has ended and was reaped.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

pub(crate) fn kill(signal: &str, pids: &[u32]) {
    let status =
        Command::new("kill").arg(signal).args(pids.iter().map(ToString::to_string)).status().unwrap();
    assert!(status.success());
}

/// A process that owns servers until it is killed.
pub(crate) struct Supervisor {
    pub(crate) child: Child,
    pub(crate) postgres: u32,
    pub(crate) redis: u32,
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
}

impl Supervisor {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_by(folder, &[])
    }

    /// `wrapper` is a command that runs the rest of its line, as `setpriv` does.
    pub(crate) fn start_by(folder: &Path, wrapper: &[&str]) -> Self {
        let mut child = Self::spawn(folder, wrapper);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut words = lines.filter_map(|line| line.split_once("up: ").map(|(_, words)| words.to_owned()));
        let words = words.next().expect("the supervisor did not come up");
        let words: Vec<&str> = words.split(' ').collect();
        let [postgres, redis, database_url, redis_url] = words[..] else { panic!("{words:?}") };
        Self {
            child,
            postgres: postgres.parse().unwrap(),
            redis: redis.parse().unwrap(),
            database_url: database_url.to_owned(),
            redis_url: redis_url.to_owned(),
        }
    }

    /// Starts the process without waiting for the servers.
    pub(crate) fn spawn(folder: &Path, wrapper: &[&str]) -> Child {
        let mut line: Vec<OsString> = wrapper.iter().map(OsString::from).collect();
        line.push(binary(folder, wrapper).into());
        line.extend(
            ["--exact", "supervisor::supervisor", "--nocapture", "--test-threads=1"].map(OsString::from),
        );
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).env(FOLDER, folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Kills the process, but not its servers.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn are_servers_gone(&self) -> bool {
        !is_alive(self.postgres) && !is_alive(self.redis)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        until("servers gone", || self.are_servers_gone());
    }
}

/// A copy of the test program, because another user may not be able to reach the build folder.
fn binary(folder: &Path, wrapper: &[&str]) -> PathBuf {
    let ours = std::env::current_exe().unwrap();
    if wrapper.is_empty() {
        return ours;
    }
    let copy = folder.join("supervisor");
    std::fs::copy(ours, &copy).unwrap();
    copy
}

/// Not a test, but the program that [`Supervisor`] runs.
#[test]
fn supervisor() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let servers = Servers::start(&durable(Path::new(&folder)), &mut |_| {}).unwrap();
    println!(
        "up: {} {} {} {}",
        servers.postgres_pid().unwrap(),
        servers.redis_pid().unwrap(),
        servers.database_url().unwrap(),
        servers.redis_url().unwrap()
    );
    // Waits until the test closes the pipe or kills this process.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}
