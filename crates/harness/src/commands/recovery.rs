//! `cargo xtask recovery`: how soon a run goes on after its worker is gone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use crate::installation;
use crate::recovery::{Plan, measure};
use houston_xtask::console::{print, tell};
use houston_xtask::programs;

/// Kill and stop workers with runs in flight, and measure how soon others go on.
#[derive(Debug, Args)]
pub(crate) struct Recovery {
    /// How often a worker is killed (`kill -9`)
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// How often a worker is asked to stop (SIGTERM)
    #[arg(long, default_value_t = 50)]
    stops: usize,
    /// Workers at work at any time
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Runs in flight at any time
    #[arg(long, default_value_t = 12)]
    runs: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// The binary to measure, instead of building it
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Recovery {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(self.workers >= 2, "--workers: there must be another one to go on, so 2 at least");
        ensure!(self.runs >= 1, "--runs: there must be something to recover, so 1 at least");
        let binary = match &self.binary {
            Some(binary) => binary.canonicalize()?,
            None => {
                tell("building the release binary");
                installation::build("houston-cli", "houston").await?
            }
        };
        let servers = programs::servers(|config| config.fsync = true)?;
        let plan = Plan { kills: self.kills, stops: self.stops, workers: self.workers, runs: self.runs };
        let report = Box::pin(measure(&binary, &servers, plan)).await?;
        if self.json {
            print(&serde_json::to_string(&report)?)?;
        } else {
            print(&report.table())?;
        }
        Ok(if report.met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
