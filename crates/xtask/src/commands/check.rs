//! `cargo xtask check`: everything that must hold before tests are worth running.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;
use houston_xtask::console::tell;
use houston_xtask::{child, repository};

use super::steps::Steps;

/// Check format, lints, architecture, prepared queries, documentation and dependencies.
#[derive(Debug, Args)]
pub(crate) struct Check {}

impl Check {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut steps = Steps::default();
        steps.take("format", format()).await;
        steps.take("lints and prepared queries", super::prepare::lint()).await;
        steps.take("architecture", architecture()).await;
        steps.take("documentation", document()).await;
        match super::advisories::deny().await {
            Some(deny) => {
                steps.take("dependencies", dependencies(deny.clone())).await;
                steps.take("advisories", super::advisories::check(&deny)).await;
            }
            None => tell("── dependencies: left out, cargo-deny is not here and could not be installed"),
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

/// With examples among the targets, so that the crates behind it have the features that clippy has checked them with.
async fn document() -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(["doc", "--quiet", "--workspace", "--no-deps", "--lib", "--examples"]);
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    child::succeed(cargo).await
}

async fn dependencies(program: PathBuf) -> Result<()> {
    let mut deny = Command::new(program);
    deny.args(["--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    deny.current_dir(repository::root());
    child::succeed(deny).await
}
