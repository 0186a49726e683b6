//! `cargo xtask bench`: Houston on a real Postgres (fsync on) and a real Redis, with a model that answers at once unless a
//! scenario says otherwise, so that only Houston is measured.
//!
//! A scenario is one file, which starts what it measures, drives its load and reports: figures with their aims, the phases
//! of its times, and what the load generator and the model have used themselves: they run on the same machine as the
//! service. So compare processor time per run between machines and with other systems; latency and throughput depend on
//! how many cores are left.
//!
//! # Deliberately absent
//!
//! - The cost of single statements among many rows: `crates/store/tests/scale` bounds what each touches, whatever the machine.
//! - Redis alone: `cargo bench -p houston-queue`. A replay alone: `houston replay --repeat 100`.

mod cancel;
mod crowd;
mod database;
mod idle;
mod load;
mod loops;
pub(crate) mod machine;
mod memory;
mod peers;
mod plans;
pub(crate) mod quiet;
pub(crate) mod receiver;
pub(crate) mod report;
pub(crate) mod setup;
mod soak;
mod start;
mod streams;
mod takeover;
mod tenants;
mod throughput;
pub(crate) mod workload;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use houston_testkit::console::{print, print_status};
use houston_testkit::houston::{Builder, Houston};
use houston_testkit::servers::TestServers;
use houston_testkit::{child, programs};

use report::Report;
use setup::{Replies, Setup};

use crate::service;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Streamed runs as fast as they go: 32 and 128 at once, with a new goal each, with limits and a webhook
    Throughput,
    /// One run after the other, with the phases of its time
    Idle,
    /// The first request after a start, memory at rest, `houston dev` from its start to readiness
    Start,
    /// The five-turn loop: alone, and 32 at once
    Loop,
    /// Plans: side by side, chains, a fan-out, and many at once
    Plans,
    /// kill -9 and SIGTERM of one of two workers
    Takeover,
    /// 1,000 and 3,000 messages at the same instant
    Crowd,
    /// Streams in a steady state: how late a token is
    Streams,
    /// Memory of runs that wait for the model, and of their streams
    Memory,
    /// A tenant beside one with 10,000 queued runs
    Tenants,
    /// How soon a cancelled run closes its connection to the model
    Cancel,
    /// The throughput when the model answers by `send_message`; this and what follows only when it is named
    SendMessage,
    /// The throughput of 1, 2 and 4 worker processes beside an API process
    Workers,
    /// The throughput of one process with several cells (`--cells`)
    Cells,
    /// A soak (`--soak`)
    Soak,
    /// What else there is, beside Houston (`--peers`)
    Peers,
}

impl Scenario {
    /// Those of a call that names none.
    fn usual() -> &'static [Self] {
        let all = Self::value_variants();
        &all[..all.len() - 5]
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Measures it, on servers of its own.
    async fn measure(self, bench: &Bench) -> Result<Report> {
        match self {
            Self::Throughput => throughput::measure(bench, &throughput::ALONE).await,
            Self::Idle => idle::measure(bench).await,
            Self::Start => start::measure(bench).await,
            Self::Loop => loops::measure(bench).await,
            Self::Plans => plans::measure(bench).await,
            Self::Takeover => takeover::measure(bench).await,
            Self::Crowd => crowd::measure(bench).await,
            Self::Streams => streams::measure(bench).await,
            Self::Memory => memory::measure(bench).await,
            Self::Tenants => tenants::measure(bench).await,
            Self::Cancel => cancel::measure(bench).await,
            Self::SendMessage => throughput::measure(bench, &throughput::BY_TOOL).await,
            Self::Workers => throughput::measure(bench, &throughput::with_workers()).await,
            Self::Cells => {
                let cells = if bench.cells.is_empty() { &[1, 2, 4] } else { bench.cells.as_slice() };
                throughput::measure(bench, &throughput::with_cells(cells)).await
            }
            Self::Soak => soak::measure(bench).await,
            Self::Peers => peers::measure(bench).await,
        }
    }
}

/// Connections of Postgres: enough for an API process and four workers.
const CONNECTIONS: u16 = 300;

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
    /// The binary that is measured.
    #[arg(skip)]
    program: PathBuf,
}

impl Bench {
    pub(crate) async fn run(mut self) -> Result<ExitCode> {
        ensure!(cfg!(target_os = "linux"), "`cargo xtask bench` reads /proc and runs on Linux only");
        self.program = service::built(self.binary.as_deref()).await?;
        // The load generator shares the cores with the service: unoptimised, it would use half of the processor time.
        if cfg!(debug_assertions) && !self.quick {
            print_status("building the load generator");
            let mut optimised = Command::new(service::build("houston-harness", "houston-harness").await?);
            optimised.args(std::env::args_os().skip(1));
            if self.binary.is_none() {
                optimised.arg("--binary").arg(&self.program);
            }
            return Ok(child::code(child::run(optimised).await?));
        }
        let scenarios = self.scenarios();
        let mut reports = Vec::with_capacity(scenarios.len());
        for scenario in scenarios {
            print_status(&format!("── {}", scenario.name()));
            let report = Box::pin(scenario.measure(&self)).await?;
            print(&report.table())?;
            reports.push((scenario.name(), report));
        }
        print(&format!("{}\n{}", machine::about(), Report::summary(&reports)))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Those that were named, by whatever way, or the usual ones.
    fn scenarios(&self) -> Vec<Scenario> {
        let mut scenarios = self.scenarios.clone();
        scenarios.extend((!self.cells.is_empty()).then_some(Scenario::Cells));
        scenarios.extend(self.soak.map(|_| Scenario::Soak));
        scenarios.extend(self.peers.then_some(Scenario::Peers));
        if scenarios.is_empty() { Scenario::usual().to_vec() } else { scenarios }
    }

    /// The size of a measurement.
    fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    fn houston(&self) -> Builder {
        Houston::builder(&self.program)
    }

    /// Servers with fsync.
    fn servers(&self) -> Result<TestServers> {
        programs::servers(|config| {
            config.fsync = true;
            config.max_connections = CONNECTIONS;
            if self.statements {
                let settings =
                    ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=on"];
                config.postgres_settings = settings.map(str::to_owned).to_vec();
            }
        })
    }

    /// The service as one process, on servers of its own.
    async fn setup(&self, replies: Replies) -> Result<Setup> {
        Setup::start(self.houston(), vec![self.servers()?], replies).await
    }

    /// Prints the statements that took most time since the start of the servers, warming up and the creation of goals
    /// included.
    fn print_statements(&self, setup: &Setup) -> Result<()> {
        if !self.statements {
            return Ok(());
        }
        setup.servers().sql("create extension if not exists pg_stat_statements")?;
        let rows = setup.servers().sql(
            "select format('  %s + %s ms in %s calls, %s plans and %s blocks a call: %s', sum(total_exec_time)::int, sum(total_plan_time)::int, sum(calls),
                           round(sum(plans) / sum(calls), 2), round(sum(shared_blks_hit) / sum(calls)), name)
               from (select coalesce(substring(query from '^-- ([a-z_:]+)'),
                                     left(regexp_replace(query, '\\s+', ' ', 'g'), 40)) as name, *
                       from pg_stat_statements where calls > 0) s
              group by name order by sum(total_exec_time + total_plan_time) desc limit 30",
        )?;
        print_status(&rows);
        Ok(())
    }
}
