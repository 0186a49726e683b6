//! `cargo xtask bench`: what Houston costs, measured.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::bench::report::{conversation_table, scale_table};
use crate::bench::{Size, cancel, conversation, history, measure, scale, tokens};
use crate::installation;
use houston_xtask::console::{print, tell};
use houston_xtask::{child, programs};

/// Measure latency, throughput, memory and storage on real servers.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Measure briefly: to see that it works, not for numbers
    #[arg(long)]
    quick: bool,
    /// Measure only how fast a cancelled run lets go of its model
    #[arg(long)]
    cancel: bool,
    /// Measure only what a streamed token costs
    #[arg(long)]
    tokens: bool,
    /// Measure only what a conversation of 500 turns costs, and one of 10,000 turns its steps
    #[arg(long)]
    conversation: bool,
    /// Measure the sweep and a claim among 100,000 idle agentables, and nothing else
    #[arg(long)]
    scale: bool,
    /// Measure the search in 10,000 closed sessions with 1,000,000 entries, and closing one, and nothing else
    #[arg(long)]
    history: bool,
    /// The binary to measure, instead of building it
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Bench {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(cfg!(target_os = "linux"), "the bench reads /proc, which only Linux has");
        if self.scale {
            return self.scale().await;
        }
        if self.history {
            return self.history().await;
        }
        let binary = match &self.binary {
            Some(binary) => binary.canonicalize()?,
            None => {
                tell("building the release binary");
                installation::build("houston-cli", "houston").await?
            }
        };
        if self.cancel {
            return self.cancel(&binary).await;
        }
        if self.tokens {
            return self.tokens(&binary).await;
        }
        if self.conversation {
            return self.conversation(&binary).await;
        }
        // The load shares the cores with what it measures: unoptimised, it would be half of what is measured.
        if cfg!(debug_assertions) {
            tell("building the load");
            let optimised = installation::build("houston-harness", "houston-harness").await?;
            return self.again(&optimised, &binary).await;
        }
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let report = Box::pin(measure(&binary, &servers, size)).await?;
        if self.json {
            print(&serde_json::to_string(&report)?)?;
        } else {
            print(&report.table())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One client that waits most of the time: it may be unoptimised.
    async fn cancel(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let cancel = cancel::measure(binary, &servers, size.cancelled).await?;
        print(&serde_json::to_string(&cancel)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The load does little: it may be unoptimised.
    async fn tokens(&self, binary: &Path) -> Result<ExitCode> {
        let servers = programs::servers(|config| config.fsync = true)?;
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let tokens = Box::pin(tokens::measure(binary, &servers, size.tokens)).await?;
        print(&serde_json::to_string(&tokens)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The model answers at once, and the client waits: it may be unoptimised.
    async fn conversation(&self, binary: &Path) -> Result<ExitCode> {
        let servers = || programs::servers(|config| config.fsync = true);
        let size = if self.quick { Size::QUICK } else { Size::FULL };
        let told = Box::pin(conversation::measure(binary, servers, size.turns, size.long)).await?;
        print(&if self.json { serde_json::to_string(&told)? } else { conversation_table(&told) })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Postgres does all of the work there: nothing of Houston need be built.
    async fn scale(&self) -> Result<ExitCode> {
        let scale = scale::measure().await?.context("`pgbench` is not installed beside Postgres")?;
        print(&if self.json { serde_json::to_string(&scale)? } else { scale_table(scale) })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Postgres does all of the work there, too.
    async fn history(&self) -> Result<ExitCode> {
        let history =
            history::measure(self.quick).await?.context("`pgbench` is not installed beside Postgres")?;
        print(&if self.json { serde_json::to_string(&history)? } else { history.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn again(&self, optimised: &Path, binary: &Path) -> Result<ExitCode> {
        let mut command = Command::new(optimised);
        command.arg("bench").arg("--binary").arg(binary);
        command.args(self.json.then_some("--json")).args(self.quick.then_some("--quick"));
        Ok(child::code(child::run(command).await?))
    }
}
