//! Forwards commands to `houston-harness`, which is built on demand: `cargo xtask check` and `test` do not wait for that.

use std::process::{Command, ExitCode, Output};

use anyhow::Result;
use clap::Args;
use houston_xtask::{child, repository};

/// The arguments of the command, passed on unchanged.
#[derive(Debug, Args)]
pub(crate) struct Forwarded {
    /// Options of the command; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Forwarded {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self { arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect() }
    }

    pub(crate) async fn run(self, command: &str) -> Result<ExitCode> {
        Ok(child::code(child::run(self.build(command).await?).await?))
    }

    /// Like [`Forwarded::run`], without printing the output.
    pub(crate) async fn captured(self, command: &str) -> Result<Output> {
        child::capture(self.build(command).await?).await
    }

    async fn build(self, command: &str) -> Result<Command> {
        child::succeed(repository::cargo_build_like_tests(&["--bin", "houston-harness"])).await?;
        let mut harness = Command::new(repository::target().join("debug/houston-harness"));
        harness.arg(command).args(self.arguments);
        Ok(harness)
    }
}
