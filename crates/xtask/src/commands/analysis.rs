//! `cargo xtask analysis`: how well and how fast the rules judge messages, and how fast those of plans are.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use houston_xtask::{child, repository};

/// Print how the labelled messages are judged, and how long the rules of messages and plans take.
#[derive(Debug, Args)]
pub(crate) struct Analysis {}

impl Analysis {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut cargo = repository::cargo();
        cargo.args(["run", "--quiet", "--release", "-p", "houston-domain", "--example", "rules"]);
        child::succeed(cargo).await?;
        Ok(ExitCode::SUCCESS)
    }
}
