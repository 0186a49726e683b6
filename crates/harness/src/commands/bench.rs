//! `cargo xtask bench`: measures latency, throughput, memory and storage.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::Args;

use crate::bench::report::Report;
use crate::bench::{self, Scenario, machine};
use crate::service;
use houston_testkit::child;
use houston_testkit::console::{print, print_status};

/// Measure latency, throughput, memory and storage on real servers.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What to measure, instead of everything
    #[arg(value_enum, value_name = "SCENARIO")]
    scenarios: Vec<Scenario>,
    /// Measure briefly: to see that the measurements work, not for figures
    #[arg(long)]
    quick: bool,
    /// Measure the throughput of one process with so many cells, each with a Postgres and a Redis
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    cells: Vec<u8>,
    /// Measure so many messages in one go, by tenths
    #[arg(long, value_name = "MESSAGES")]
    soak: Option<usize>,
    /// Measure DBOS and Rusty beside Houston, with the same model and client; they are installed first
    #[arg(long)]
    peers: bool,
    /// With a throughput: print the statements of Postgres (of the first cell) that took most time
    #[arg(long)]
    statements: bool,
    /// The binary to measure, instead of building it
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Bench {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(cfg!(target_os = "linux"), "`cargo xtask bench` reads /proc and runs on Linux only");
        let program = service::built(self.binary.as_deref()).await?;
        // The load generator shares the cores with the service: unoptimised, it would use half of the processor time.
        if cfg!(debug_assertions) && !self.quick {
            print_status("building the load generator");
            let optimised = service::build("houston-harness", "houston-harness").await?;
            return self.run_optimised(&optimised, &program).await;
        }
        let scenarios = self.scenarios();
        let bench = bench::Bench {
            program,
            quick: self.quick,
            statements: self.statements,
            cells: if self.cells.is_empty() { vec![1, 2, 4] } else { self.cells },
            messages: self.soak.unwrap_or(if self.quick { 2_000 } else { 1_000_000 }),
        };
        let mut reports = Vec::with_capacity(scenarios.len());
        for scenario in scenarios {
            print_status(&format!("── {}", scenario.name()));
            let report = Box::pin(scenario.measure(&bench)).await?;
            print(&report.table())?;
            reports.push((scenario.name(), report));
        }
        print(&format!("{}\n{}", machine::about(), Report::summary(&reports)))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Those that were named, by whatever way, or the usual ones.
    fn scenarios(&self) -> Vec<Scenario> {
        let options = [
            (!self.cells.is_empty(), Scenario::Cells),
            (self.soak.is_some(), Scenario::Soak),
            (self.peers, Scenario::Peers),
        ];
        let by_option = options.into_iter().filter_map(|(is_set, scenario)| is_set.then_some(scenario));
        let mut scenarios = self.scenarios.clone();
        scenarios.extend(by_option);
        if scenarios.is_empty() { Scenario::usual().to_vec() } else { scenarios }
    }

    async fn run_optimised(&self, optimised: &Path, program: &Path) -> Result<ExitCode> {
        let mut command = Command::new(optimised);
        command.arg("bench").arg("--binary").arg(program);
        command.args(self.statements.then_some("--statements"));
        command.args(self.cells.iter().map(|count| format!("--cells={count}")));
        command.args(self.soak.map(|messages| format!("--soak={messages}")));
        command.args(self.scenarios().into_iter().map(Scenario::name));
        Ok(child::code(child::run(command).await?))
    }
}
