//! `cargo xtask loud`: measures what twenty tenants see of one that does everything at once.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::bench::report::Report;
use crate::loud::measure;
use crate::service;
use houston_testkit::console::print;
use houston_testkit::programs;

/// Twenty tenants chat, alone and beside one that does everything at once that an ordinary key allows.
#[derive(Debug, Args)]
pub(crate) struct Loud {
    /// Minutes of each of the two phases
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Judge what failed and died, and the memory, but no times: for a debug build, or a machine that does other things
    #[arg(long)]
    without_times: bool,
    /// The binary to measure, instead of building it
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Loud {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(self.minutes >= 0.1, "--minutes must be at least 0.1");
        let binary = service::built(self.binary.as_deref()).await?;
        let servers = programs::servers(|config| config.fsync = true)?;
        let lasts = Duration::from_secs_f64(self.minutes * 60.0);
        let report = Box::pin(measure(&binary, servers, lasts, self.without_times)).await?;
        let is_met = report.is_met();
        print(&(report.table() + &Report::summary(&[("loud".to_owned(), report)])))?;
        Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
