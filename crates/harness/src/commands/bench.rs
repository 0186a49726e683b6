//! `cargo xtask bench`: measures latency, throughput, memory and storage.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::Args;
use houston_testkit::servers::TestServers;
use serde::Serialize;

use crate::bench::report::{Report, table};
use crate::bench::throughput::Case;
use crate::bench::{Size, cancel, idle, measure, plans, replay, throughput, tokens};
use crate::service;
use houston_testkit::console::{print, print_status};
use houston_testkit::{child, programs};

/// Measure latency, throughput, memory and storage on real servers.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Measure briefly: to see that the measurements work, not for figures
    #[arg(long)]
    quick: bool,
    /// Measure only the service at rest, and one run after the other
    #[arg(long)]
    idle: bool,
    /// Measure only how fast a cancelled run closes its connection to the model
    #[arg(long)]
    cancel: bool,
    /// Measure only the latency and processor time of a streamed token
    #[arg(long)]
    tokens: bool,
    /// Measure only the throughput: 32 and 128 runs at once, and with a new goal for each run
    #[arg(long, group = "load")]
    throughput: bool,
    /// Measure only the throughput with 1, 2 and 4 worker processes beside an API process: 32 and 128 runs at once
    #[arg(long, group = "load")]
    workers: bool,
    /// Measure only the throughput of one process with so many cells, each with a Postgres and a Redis: 32 and 128 runs at once
    #[arg(long, group = "load", value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    cells: Vec<u8>,
    /// Measure only how long a recorded run of twenty iterations takes to be replayed
    #[arg(long)]
    replay: bool,
    /// Measure only a plan of five steps side by side, and the same work by the loop of its goal
    #[arg(long)]
    plan: bool,
    /// With `--throughput`, `--workers` or `--cells` (of the first): count the statements of Postgres, and their time
    #[arg(long, requires = "load")]
    statements: bool,
    /// The binary to measure, instead of building it
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Bench {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(cfg!(target_os = "linux"), "`cargo xtask bench` reads /proc and runs on Linux only");
        let binary = self.binary().await?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        if self.plan {
            let servers = servers_with(plans::postgres_settings())?;
            let measured = Box::pin(plans::measure(&binary, &servers, size.plans)).await?;
            return self.show(&measured, plans::Plans::table);
        }
        if self.replay {
            return self.show(&replay::measure(&binary, size.replays).await?, replay::Replays::table);
        }
        // Of these two, the client waits most of the time.
        if self.cancel {
            let measured = cancel::measure(&binary, &servers()?, size.cancelled).await?;
            return self.show(&measured, |cancel| table(&cancel.rows()));
        }
        if self.tokens {
            let measured = Box::pin(tokens::measure(&binary, &servers()?, size.tokens)).await?;
            return self.show(&measured, |tokens| table(&tokens.rows()));
        }
        // The load generator shares the cores with the service: unoptimised, it would use half of the processor time.
        if cfg!(debug_assertions) && !self.quick {
            print_status("building the load generator");
            let optimised = service::build("houston-harness", "houston-harness").await?;
            return self.run_optimised(&optimised, &binary).await;
        }
        if self.idle {
            let measured = Box::pin(idle::measure_alone(&binary, &servers()?, size)).await?;
            return self.show(&measured, |alone| table(&alone.rows()));
        }
        let cells: Vec<Case> =
            self.cells.iter().flat_map(|count| Case::with_cells(usize::from(*count))).collect();
        let cases = match () {
            () if self.throughput => &throughput::ALONE[..],
            () if self.workers => &throughput::WORKERS,
            () => &cells,
        };
        if !cases.is_empty() {
            let measured = Box::pin(throughput::measure(&binary, size, cases, self.statements)).await?;
            return self.show(&measured, |measured| throughput::table(measured));
        }
        self.show(&Box::pin(measure(&binary, &servers()?, size)).await?, Report::table)
    }

    /// The binary that was named, or one that is built. Plans need tools that take a time.
    async fn binary(&self) -> Result<PathBuf> {
        match &self.binary {
            Some(binary) => Ok(binary.canonicalize()?),
            None if self.plan => service::build_example("houston-cli", "chaos_tools").await,
            None => {
                print_status("building the release binary");
                service::build_service().await
            }
        }
    }

    fn show<T: Serialize>(&self, measured: &T, table: impl FnOnce(&T) -> String) -> Result<ExitCode> {
        print(&if self.json { serde_json::to_string(measured)? } else { table(measured) })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn run_optimised(&self, optimised: &Path, binary: &Path) -> Result<ExitCode> {
        let mut command = Command::new(optimised);
        command.arg("bench").arg("--binary").arg(binary);
        for (is_set, flag) in [
            (self.json, "--json"),
            (self.idle, "--idle"),
            (self.throughput, "--throughput"),
            (self.workers, "--workers"),
            (self.statements, "--statements"),
        ] {
            command.args(is_set.then_some(flag));
        }
        command.args(self.cells.iter().map(|count| format!("--cells={count}")));
        Ok(child::code(child::run(command).await?))
    }
}

fn servers() -> Result<TestServers> {
    servers_with(Vec::new())
}

fn servers_with(postgres_settings: Vec<String>) -> Result<TestServers> {
    programs::servers(|config| {
        config.fsync = true;
        config.postgres_settings = postgres_settings;
    })
}
