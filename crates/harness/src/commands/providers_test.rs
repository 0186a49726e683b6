//! `cargo xtask providers-test`: providers that others wrote, talking with Houston.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::providers;
use houston_xtask::console::print;

/// Let two independent fake providers judge Houston: one breaks every call, one speaks five protocols.
#[derive(Debug, Args)]
pub(crate) struct ProvidersTest {
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

impl ProvidersTest {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let report = Box::pin(providers::run()).await?;
        if self.json { print(&report.json()?) } else { print(&report.table()) }?;
        Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
