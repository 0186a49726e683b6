//! One Houston, as one process, on servers of its own: what is measured and talked to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use memchr::memmem;
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::http::Connection;
use houston_xtask::{child, repository};

/// How long the service may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running Houston. The servers outlive it.
#[derive(Debug)]
pub(crate) struct Installation {
    process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    _folder: TempDir,
}

/// Whatever has an id.
#[derive(Debug, Deserialize)]
struct Made {
    id: String,
}

/// Builds the program `name` of `package` as it is delivered, and says where it is.
pub(crate) async fn build(package: &str, name: &str) -> Result<PathBuf> {
    let mut cargo = repository::cargo();
    cargo.args(["build", "--release", "--quiet", "--package", package, "--bin", name]);
    child::succeed(cargo).await?;
    let program = repository::target().join("release").join(name);
    refuse_crash_points(&std::fs::read(&program)?)?;
    Ok(program)
}

/// What is delivered has no crash points: their words would be in the program.
fn refuse_crash_points(program: &[u8]) -> Result<()> {
    for trace in ["fault injected", "FAILPOINTS"] {
        ensure!(memmem::find(program, trace.as_bytes()).is_none(), "`{trace}` is in a release");
    }
    Ok(())
}

/// Builds the program `name` as it is tested, and says where it is.
pub(crate) async fn built(name: &str) -> Result<PathBuf> {
    child::succeed(repository::cargo_build_like_tests(&["--bin", name])).await?;
    Ok(repository::target().join("debug").join(name))
}

/// The program with no setting of the caller's environment.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    without_settings(&mut command);
    command
}

/// Takes away what the caller's environment says to Houston.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOUSTON_") {
            command.env_remove(name);
        }
    }
}

impl Installation {
    /// Starts `program` on `servers` with these variables, and no other setting of the caller's environment.
    pub(crate) async fn start(
        program: &Path,
        servers: &TestServers,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("houston-harness-").tempdir()?;
        let mut command = command(program);
        command
            .args(["dev", "--address", "127.0.0.1:0"])
            .env("HOUSTON_FOLDER", folder.path())
            .env("DATABASE_URL", servers.database_url())
            .env("HOUSTON_REDIS_URL", servers.redis_url())
            .env("HOUSTON_LOG", "warn")
            .envs(variables.iter().map(|(name, value)| (name, value)));
        let mut process = Process::spawn(&mut command)
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let line = process.wait_for_line(PATIENCE, |line| line.contains("is up at http://"))?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        let address =
            address.and_then(|address| address.parse().ok()).context("no address in the greeting")?;
        process.wait_for_ready(address, "/readyz", PATIENCE)?;
        let key = std::fs::read_to_string(folder.path().join("key"))?.trim().to_owned();
        Ok(Self { process, address, key, _folder: folder })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it has logged: nothing, when all went well.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, &self.key).await
    }

    /// Makes a user.
    pub(crate) async fn user(&self, name: &str) -> Result<String> {
        user(&mut self.connect().await?, name).await
    }
}

/// Makes a user.
pub(crate) async fn user(connection: &mut Connection, name: &str) -> Result<String> {
    let body = json!({ "name": name }).to_string();
    Ok(connection.post("/v1/users", &body).await?.json::<Made>()?.id)
}

/// Makes a goal of `user`.
pub(crate) async fn goal(connection: &mut Connection, user: &str, title: &str) -> Result<String> {
    let body = json!({"user_id": user, "title": title}).to_string();
    Ok(connection.post("/v1/goals", &body).await?.json::<Made>()?.id)
}
