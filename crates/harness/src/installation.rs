//! Houston on its own servers, as tests and measurements use it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::user::UserResponse;
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use memchr::memmem;
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use crate::http::Connection;
use crate::proc;
use houston_xtask::child::output;
use houston_xtask::{child, repository};

/// How long the service may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Processes {
    /// One, `houston dev`: API and worker.
    One,
    /// `houston serve`, and `houston work` so many times.
    Workers(usize),
}

/// A running Houston; its processes end when this is dropped. Its servers are not part of it.
#[derive(Debug)]
pub(crate) struct Installation {
    processes: Vec<Process>,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    _folder: TempDir,
}

/// Builds the binary of the service as it is deployed; returns its path.
pub(crate) async fn build_service() -> Result<PathBuf> {
    let program = build("dist", "houston-cli", "houston").await?;
    refuse_crash_points(&std::fs::read(&program)?)?;
    Ok(program)
}

/// Builds the binary `name` of `package` with `profile`, `release` or `dist`; returns its path.
pub(crate) async fn build(profile: &str, package: &str, name: &str) -> Result<PathBuf> {
    build_target(profile, package, "--bin", name).await?;
    Ok(repository::target().join(profile).join(name))
}

/// Builds the example `name` of `package` with the profile `release`; returns its path.
pub(crate) async fn build_example(package: &str, name: &str) -> Result<PathBuf> {
    build_target("release", package, "--example", name).await?;
    Ok(repository::target().join("release/examples").join(name))
}

async fn build_target(profile: &str, package: &str, kind: &str, name: &str) -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["build", "--profile", profile, "--quiet", "--package", package, kind, name]);
    child::succeed(cargo).await
}

/// Fails if the binary contains crash points, recognised by strings of the `faults` crate.
fn refuse_crash_points(program: &[u8]) -> Result<()> {
    for trace in ["fault injected", "FAILPOINTS"] {
        ensure!(
            memmem::find(program, trace.as_bytes()).is_none(),
            "the release binary contains crash points (`{trace}`)"
        );
    }
    Ok(())
}

/// Builds the debug binary `name` with the features of tests; returns its path.
pub(crate) async fn build_like_tests(name: &str) -> Result<PathBuf> {
    child::succeed(repository::cargo_build_like_tests(&["--bin", name])).await?;
    Ok(repository::target().join("debug").join(name))
}

/// The program without the `HOUSTON_*` variables of the caller's environment, and without rate limits.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    without_settings(&mut command);
    // What is measured sends more than people do.
    command.env("HOUSTON_RATES__REQUESTS__QUOTA", "0").env("HOUSTON_RATES__TOKENS__QUOTA", "0");
    command
}

/// Removes the `HOUSTON_*` variables of the caller's environment.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOUSTON_") {
            command.env_remove(name);
        }
    }
}

/// A `houston` command on `servers`, without the `HOUSTON_*` variables of the caller's environment.
pub(crate) fn command_on(servers: &TestServers, program: &Path, arguments: &[&str]) -> Command {
    let mut command = command(program);
    command
        .args(arguments)
        .env("DATABASE_URL", servers.database_url())
        .env("HOUSTON_REDIS_URL", servers.redis_url())
        .env("HOUSTON_LOG", "warn");
    command
}

/// Writes the agent type `kind` to the folder `jobs`, with more tools.
pub(crate) fn add_tools(jobs: &Path, kind: &str, tools: &[&str]) -> Result<()> {
    let file = Path::new("agents").join(format!("{kind}.toml"));
    let text = std::fs::read_to_string(repository::root().join("jobs").join(&file))?;
    let added: String = tools.iter().map(|tool| format!("\"{tool}\", ")).collect();
    let changed = text.replacen("tools = [", &format!("tools = [{added}"), 1);
    ensure!(changed != text, "jobs/{} has no tools", file.display());
    std::fs::create_dir_all(jobs.join("agents"))?;
    Ok(std::fs::write(jobs.join(file), changed)?)
}

/// Creates the tables and a key, and starts an API process that is ready. `houston` makes a command of its arguments.
pub(crate) fn serve(houston: impl Fn(&[&str]) -> Command) -> Result<(Process, SocketAddr, String)> {
    output(&mut houston(&["migrate"]))?;
    let key = output(&mut houston(&["key", "create", "--tenant", "harness"]))?.trim().to_owned();
    let mut process = Process::spawn(&mut houston(&["serve", "--address", "127.0.0.1:0"]))?;
    let address = process.wait_for_address(PATIENCE)?;
    process.wait_for_ready(address, "/readyz", PATIENCE)?;
    Ok((process, address, key))
}

/// Starts a worker that takes runs. `houston` makes a command of its arguments.
pub(crate) fn work(houston: impl Fn(&[&str]) -> Command) -> Result<Process> {
    let process = Process::spawn(&mut houston(&["work"]))?;
    process.wait_for_line(PATIENCE, |line| line == "working")?;
    Ok(process)
}

impl Installation {
    /// Starts `program` as one process on `servers` with `variables` and without the `HOUSTON_*` variables of the
    /// caller's environment.
    pub(crate) async fn start(
        program: &Path,
        servers: &TestServers,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        Self::start_as(Processes::One, program, servers, variables).await
    }

    /// Like [`Self::start`], as `processes`.
    pub(crate) async fn start_as(
        processes: Processes,
        program: &Path,
        servers: &TestServers,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("houston-harness-").tempdir()?;
        let houston = |arguments: &[&str]| {
            let mut command = command_on(servers, program, arguments);
            command
                .env("HOUSTON_FOLDER", folder.path())
                .envs(variables.iter().map(|(name, value)| (name, value)));
            command
        };
        if let Processes::Workers(workers) = processes {
            let (api, address, key) = serve(houston)?;
            let mut processes = vec![api];
            for _ in 0..workers {
                processes.push(work(houston)?);
            }
            return Ok(Self { processes, address, key, _folder: folder });
        }
        let mut process = Process::spawn(&mut houston(&["dev", "--address", "127.0.0.1:0"]))
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let line = process.wait_for_line(PATIENCE, |line| line.contains("is up at http://"))?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        let address =
            address.and_then(|address| address.parse().ok()).context("no address in the greeting")?;
        process.wait_for_ready(address, "/readyz", PATIENCE)?;
        let key = std::fs::read_to_string(folder.path().join("key"))?.trim().to_owned();
        Ok(Self { processes: vec![process], address, key, _folder: folder })
    }

    /// Processor time that all its processes have used.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.processes.iter().map(|process| proc::cpu(process.pid())).sum()
    }

    /// Resident memory of all its processes, in bytes.
    pub(crate) fn rss(&self) -> Result<u64> {
        self.processes.iter().map(|process| proc::rss(process.pid())).sum()
    }

    /// The output of its processes so far, at level `warn`.
    pub(crate) fn log(&self) -> String {
        self.processes.iter().map(Process::log).collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, &self.key).await
    }

    /// Creates a user; returns its id.
    pub(crate) async fn user(&self, name: &str) -> Result<String> {
        user(&mut self.connect().await?, name).await
    }
}

/// Creates a user; returns its id.
pub(crate) async fn user(connection: &mut Connection, name: &str) -> Result<String> {
    let body = json!({ "name": name }).to_string();
    Ok(connection.post("/v1/users", &body).await?.json::<UserResponse>()?.id.to_string())
}

/// Creates a goal of `user`; returns its id.
pub(crate) async fn goal(connection: &mut Connection, user: &str, title: &str) -> Result<String> {
    let body = json!({"user_id": user, "title": title}).to_string();
    Ok(connection.post("/v1/goals", &body).await?.json::<AgentableResponse>()?.id)
}
