//! `cargo xtask providers-test`: tests Houston against fake providers written by others.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::providers;
use houston_testkit::console::print;

/// Test Houston against two independent fake providers: one injects faults into calls, one speaks five protocols.
#[derive(Debug, Args)]
pub(crate) struct ProvidersTest {}

impl ProvidersTest {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let report = Box::pin(providers::run()).await?;
        print(&report.table())?;
        Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
