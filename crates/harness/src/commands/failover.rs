//! `cargo xtask failover`: a server is lost for good while messages are posted, and another one takes its place.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::chaos::build;
use crate::chaos::{self, Engine, Options, Report};
use houston_testkit::console::{print, print_status};

/// Fewer messages show too little.
const MIN_MESSAGES: usize = 1_000;

/// Lose a pooler, the primary of Postgres, or the master of Redis for good, under load; count what is lost, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Failover {
    /// What is lost; by default each in turn
    #[arg(value_name = "ENGINE")]
    engines: Vec<Engine>,
    /// How long messages are posted
    #[arg(long, default_value_t = 2.5)]
    minutes: f64,
    /// Determines the actions of the clients
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fewer than 1,000 messages are enough
    #[arg(long)]
    quick: bool,
    /// The program to run, instead of building it: `target/debug/examples/chaos_tools`
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

impl Failover {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(self.minutes > 0.0 && self.minutes < 600.0, "--minutes must be between 0 and 600");
        let program = build(self.program.as_deref()).await?;
        let engines =
            if self.engines.is_empty() { Engine::value_variants() } else { self.engines.as_slice() };
        let (mut lines, mut failed) = (Vec::new(), 0);
        for engine in engines {
            let name =
                engine.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            print_status(&format!("failover of the {name}"));
            let time = Duration::from_secs_f64(self.minutes * 60.0);
            let options = Options::new(&program.0, &format!("failover-{name}"), self.seed, time);
            let options = Options { engine: Some(*engine), ..options };
            let report = Box::pin(chaos::run(&options)).await?;
            let problem = self.problem(&report);
            failed += usize::from(problem.is_some());
            print(&report.table())?;
            let hints = report.hints_after.map(|hints| format!(", {hints} hints by the new master"));
            lines.push(format!(
                "{name:<9} {} messages, {} lost, {} violations, {:.1} s without a commit{} ({}): {}",
                report.messages_accepted(),
                report.lost(),
                report.violations(),
                report.outage(),
                hints.unwrap_or_default(),
                report.engine_note,
                problem.unwrap_or("clean")
            ));
        }
        print(&lines.join("\n"))?;
        if engines.len() > 1 {
            print(&format!("failover: {} of {} without a loss", engines.len() - failed, engines.len()))?;
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Why the run shows no clean failover.
    fn problem(&self, report: &Report) -> Option<&'static str> {
        if report.verdict().1 != 0 {
            Some("an invariant was violated, or the server was not lost")
        } else if report.processes.1 > report.poisonings() {
            Some("a process ended by itself")
        } else if report.hints_after == Some(0) {
            Some("no hint came back")
        } else if !self.quick && report.messages_accepted() < MIN_MESSAGES {
            Some("there were too few messages")
        } else {
            None
        }
    }
}
