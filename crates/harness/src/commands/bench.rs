//! `cargo xtask bench`: measures latency, throughput, memory and storage.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::bench::report::{conversation_table, targets_table};
use crate::bench::throughput::Case;
use crate::bench::{
    Size, adapters, bus, cancel, console, conversation, hints, history, interfaces, measure, plans, replay,
    scale, streams, throughput, tokens,
};
use crate::installation;
use houston_xtask::console::{print, print_status};
use houston_xtask::{child, programs};

/// Measure latency, throughput, memory and storage on real servers.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Measure briefly: to see that the measurements work, not for figures
    #[arg(long)]
    quick: bool,
    /// Measure only how fast a cancelled run closes its connection to the model
    #[arg(long)]
    cancel: bool,
    /// Measure only the latency and processor time of a streamed token
    #[arg(long)]
    tokens: bool,
    /// Measure only what a streamed token costs over each protocol
    #[arg(long)]
    adapters: bool,
    /// Measure only what limits and webhooks cost a run: its start, a rate check, deliveries per second
    #[arg(long)]
    interfaces: bool,
    /// Measure only what 10,000 idle streams and 50,000 wrong keys cost
    #[arg(long)]
    streams: bool,
    /// Measure only the cost of a conversation of 500 turns, and the turn latency after 10,000 turns
    #[arg(long)]
    conversation: bool,
    /// Measure only the pages of the console after 100,000 runs; fails if the p95 of one is above 200 ms, unless --quick
    #[arg(long)]
    console: bool,
    /// Measure only the sweep and a claim among 100,000 idle agentables
    #[arg(long)]
    scale: bool,
    /// Measure only the search in 10,000 closed sessions with 1,000,000 entries, and closing a session
    #[arg(long)]
    history: bool,
    /// Measure only the throughput: 32 and 128 runs at once, and with a new goal for each run
    #[arg(long, group = "load")]
    throughput: bool,
    /// Measure only the throughput with 1, 2 and 4 worker processes beside an API process: 32 and 128 runs at once
    #[arg(long, group = "load")]
    workers: bool,
    /// Measure only the throughput of one process with so many cells, each with a Postgres and a Redis: 32 and 128 runs at once
    #[arg(long, group = "load", value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    cells: Vec<u8>,
    /// Measure only the lanes of hints in Redis: hints per second, and the pick-up of a hint by an idle worker
    #[arg(long)]
    hints: bool,
    /// Measure only how long a recorded run of twenty iterations takes to be replayed
    #[arg(long)]
    replay: bool,
    /// Measure only the readers of events: events per second for webhooks and triggers, and how late they are
    #[arg(long)]
    bus: bool,
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
        if self.scale {
            return self.scale().await;
        }
        if self.history {
            return self.history().await;
        }
        if self.hints {
            return self.hints().await;
        }
        if self.bus {
            return self.bus().await;
        }
        if self.plan {
            return self.plan().await;
        }
        let binary = match &self.binary {
            Some(binary) => binary.canonicalize()?,
            None => {
                print_status("building the release binary");
                installation::build_service().await?
            }
        };
        if let Some(code) = self.part(&binary).await? {
            return Ok(code);
        }
        // The load generator shares the cores with the service: unoptimised, it would use half of the processor time.
        if cfg!(debug_assertions) {
            print_status("building the load generator");
            let optimised = installation::build("release", "houston-harness", "houston-harness").await?;
            return self.run_optimised(&optimised, &binary).await;
        }
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        if self.throughput || self.workers || !self.cells.is_empty() {
            let cells: Vec<Case> =
                self.cells.iter().flat_map(|count| Case::with_cells(usize::from(*count))).collect();
            let alone = if self.workers { &throughput::WORKERS[..] } else { &throughput::ALONE };
            let cases = if cells.is_empty() { alone } else { &cells };
            let measured = Box::pin(throughput::measure(&binary, size, cases, self.statements)).await?;
            print(&if self.json { serde_json::to_string(&measured)? } else { throughput::table(&measured) })?;
            return Ok(ExitCode::SUCCESS);
        }
        let servers = programs::servers(|config| config.fsync = true)?;
        let report = Box::pin(measure(&binary, &servers, size)).await?;
        if self.json {
            print(&serde_json::to_string(&report)?)?;
        } else {
            print(&report.table())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Measures the one part that was asked for, if it needs nothing but the service.
    async fn part(&self, binary: &Path) -> Result<Option<ExitCode>> {
        if self.replay {
            return self.replay(binary).await.map(Some);
        }
        if self.cancel {
            return self.cancel(binary).await.map(Some);
        }
        if self.tokens {
            return self.tokens(binary).await.map(Some);
        }
        if self.adapters {
            return self.adapters(binary).await.map(Some);
        }
        if self.interfaces {
            return self.interfaces(binary).await.map(Some);
        }
        if self.conversation {
            return self.conversation(binary).await.map(Some);
        }
        if self.streams {
            return self.streams(binary).await.map(Some);
        }
        if self.console {
            return self.console(binary).await.map(Some);
        }
        Ok(None)
    }

    /// Needs no optimised harness: an example does the work.
    async fn bus(&self) -> Result<ExitCode> {
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let measured = bus::measure(size).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: one client waits most of the time. Its service has tools that take a time.
    async fn plan(&self) -> Result<ExitCode> {
        let binary = match &self.binary {
            Some(binary) => binary.canonicalize()?,
            None => installation::build_example("houston-cli", "chaos_tools").await?,
        };
        let servers = programs::servers(|config| {
            config.fsync = true;
            config.postgres_settings = plans::postgres_settings();
        })?;
        let measured = Box::pin(plans::measure(&binary, &servers, if self.quick { 2 } else { 10 })).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table()? })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: one client that waits most of the time.
    async fn cancel(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let cancel = cancel::measure(binary, &servers, size.cancelled).await?;
        print(&serde_json::to_string(&cancel)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: the load is small.
    async fn tokens(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let tokens = Box::pin(tokens::measure(binary, &servers, size.tokens)).await?;
        print(&serde_json::to_string(&tokens)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: the load is small.
    async fn adapters(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let measured = Box::pin(adapters::measure(binary, &servers, size.tokens / 5)).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: runs come one after the other, and deliveries are received by a few lines.
    async fn interfaces(&self, binary: &Path) -> Result<ExitCode> {
        let servers = || programs::servers(|config| config.fsync = true);
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let (plain, all_on) = (servers()?, servers()?);
        let measured = Box::pin(interfaces::measure(binary, (&plain, &all_on), size.idle_runs * 2)).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// The processor time of the service does not depend on the harness, and its memory neither; only keys per second do.
    async fn streams(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let measured = Box::pin(streams::measure(binary, &servers, size.streams)).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: the client waits most of the time.
    async fn conversation(&self, binary: &Path) -> Result<ExitCode> {
        let servers = || programs::servers(|config| config.fsync = true);
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let conversation = Box::pin(conversation::measure(binary, servers, size.turns, size.long)).await?;
        print(&if self.json {
            serde_json::to_string(&conversation)?
        } else {
            conversation_table(&conversation)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no optimised harness: the client waits for one page at a time.
    async fn console(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { console::Size::QUICK } else { console::Size::FULL };
        let measured = Box::pin(console::measure(binary, &servers, size)).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table() })?;
        let is_late = !self.quick && measured.late() > 0;
        Ok(if is_late { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Needs no servers: a recorded run is replayed from its file.
    async fn replay(&self, binary: &Path) -> Result<ExitCode> {
        let measured = replay::measure(binary, if self.quick { 5 } else { 50 }).await?;
        print(&if self.json { serde_json::to_string(&measured)? } else { measured.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no build of Houston: only Postgres is measured.
    async fn scale(&self) -> Result<ExitCode> {
        let scale = scale::measure()
            .await?
            .context("pgbench is not beside Postgres: install the package postgresql")?;
        print(&if self.json { serde_json::to_string(&scale)? } else { targets_table(&scale.lines()) })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no build of Houston: only Postgres is measured.
    async fn history(&self) -> Result<ExitCode> {
        let history = history::measure(self.quick)
            .await?
            .context("pgbench is not beside Postgres: install the package postgresql")?;
        print(&if self.json { serde_json::to_string(&history)? } else { history.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Needs no build of Houston: only its queue and Redis are measured.
    async fn hints(&self) -> Result<ExitCode> {
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let hints = hints::measure(size).await?;
        print(&if self.json { serde_json::to_string(&hints)? } else { hints.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn run_optimised(&self, optimised: &Path, binary: &Path) -> Result<ExitCode> {
        let mut command = Command::new(optimised);
        command.arg("bench").arg("--binary").arg(binary);
        command.args(self.json.then_some("--json")).args(self.quick.then_some("--quick"));
        command.args(self.throughput.then_some("--throughput")).args(self.workers.then_some("--workers"));
        command.args(self.statements.then_some("--statements"));
        command.args(self.cells.iter().map(|count| format!("--cells={count}")));
        Ok(child::code(child::run(command).await?))
    }
}
