//! `cargo xtask recovery`: measures how soon a run continues after its worker was killed or stopped.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use crate::recovery::{Plan, measure};
use crate::service;
use houston_testkit::console::{print, print_status};
use houston_testkit::programs;

/// Kill and stop workers with runs in flight, and measure how soon others take over.
#[derive(Debug, Args)]
pub(crate) struct Recovery {
    /// Number of workers to kill (`kill -9`)
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Number of workers to stop (SIGTERM)
    #[arg(long, default_value_t = 50)]
    stops: usize,
    /// Number of workers running at any time
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Number of runs in flight at any time
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
        ensure!(self.workers >= 2, "--workers must be at least 2: one takes over the runs of the other");
        ensure!(self.runs >= 1, "--runs must be at least 1");
        let binary = match &self.binary {
            Some(binary) => binary.canonicalize()?,
            None => {
                print_status("building the release binary");
                service::build_service().await?
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
