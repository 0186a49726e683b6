//! The lanes of hints alone: how many hints per second, and how soon an idle worker picks one up.
//!
//! `crates/queue/examples/hints.rs` sends and handles the hints through the queue's sender and worker, with the slots of
//! a worker and a handler that does nothing. Its Redis writes to disk like that of an installation; Postgres takes no
//! part.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use houston_testkit::process::Process;
use houston_testkit::servers::TestServers;
use houston_xtask::console::print_status;
use houston_xtask::programs;
use serde::{Deserialize, Serialize};

use super::Size;
use super::report::targets_table;
use super::spread::{Spread, round};
use crate::installation::build_example;
use crate::proc;

/// Time limit of one part: longer than that of the example itself.
const PATIENCE: Duration = Duration::from_secs(150);

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Hints {
    hints: usize,
    /// Hints that one process sent, wrote to Redis, took from it and handled, per second from the first to the last.
    hints_per_second: f64,
    /// Processor time of that process.
    cpu_us_per_hint: f64,
    redis_cpu_us_per_hint: f64,
    idle_hints: usize,
    /// Hint sent → handler started, with one hint at a time; sender and worker are one process.
    pick_up_ms: Spread,
    /// The same; sender and worker are two processes.
    pick_up_of_another_ms: Spread,
}

/// What the example prints.
#[derive(Debug, Deserialize)]
struct Printed {
    seconds: f64,
    /// Of each hint, in microseconds.
    late_us: Vec<u64>,
}

pub(crate) async fn measure(size: Size) -> Result<Hints> {
    print_status("hints: building the example `hints` of the queue");
    let example = build_example("houston-queue", "hints").await?;
    let servers = programs::servers(|config| (config.postgres, config.fsync) = (false, true))?;
    let redis = servers.redis_pid().context("Redis has no process id")?;
    let (hints, idle_hints) = (size.hints, size.idle_hints);
    let spread = |printed: Printed| Spread::of(printed.late_us.into_iter().map(Duration::from_micros));

    print_status(&format!("hints: {hints} as fast as possible, then {idle_hints} one by one"));
    let before = proc::cpu(redis)?;
    let process = start(&example, &servers, "flood", hints)?;
    let seconds = printed(&process, hints)?.seconds;
    let (cpu, redis_cpu) = (proc::cpu(process.pid())?, proc::cpu(redis)? - before);
    let pick_up_ms = spread(printed(&start(&example, &servers, "idle", idle_hints)?, idle_hints)?);

    let worker = start(&example, &servers, "work", idle_hints)?;
    worker.wait_for_line(PATIENCE, |line| line == "working")?;
    let _sender = start(&example, &servers, "send", idle_hints)?;
    let pick_up_of_another_ms = spread(printed(&worker, idle_hints)?);

    let us_per_hint = |time: Duration| round(time.as_secs_f64() * 1e6 / hints as f64);
    Ok(Hints {
        hints,
        hints_per_second: round(hints as f64 / seconds),
        cpu_us_per_hint: us_per_hint(cpu),
        redis_cpu_us_per_hint: us_per_hint(redis_cpu),
        idle_hints,
        pick_up_ms,
        pick_up_of_another_ms,
    })
}

/// Starts one part of the example.
fn start(example: &Path, servers: &TestServers, part: &str, hints: usize) -> Result<Process> {
    let mut command = Command::new(example);
    command.args([part, servers.redis_url(), &hints.to_string()]);
    Process::spawn(&mut command).with_context(|| format!("{} cannot be started", example.display()))
}

/// Waits for the result of one part.
fn printed(process: &Process, hints: usize) -> Result<Printed> {
    let line = process.wait_for_line(PATIENCE, |line| line.starts_with('{'))?;
    let printed: Printed = serde_json::from_str(&line)?;
    ensure!(printed.late_us.len() == hints, "{} of {hints} hints were handled", printed.late_us.len());
    Ok(printed)
}

impl Hints {
    /// The table of `--hints`.
    pub(crate) fn table(&self) -> String {
        let (idle, other) = (self.pick_up_ms, self.pick_up_of_another_ms);
        targets_table(&self.lines())
            + &format!(
                "\n{:.0} hints/s; idle pick-up {:.2} / {:.2} ms p50 / p99, from another process {:.2} / {:.2}\n",
                self.hints_per_second, idle.p50, idle.p99, other.p50, other.p99
            )
    }

    /// Rows of the table: name, measured, target, met.
    pub(crate) fn lines(&self) -> [[String; 4]; 4] {
        let met = |met: bool| if met { "yes" } else { "NO" };
        let pick_up = |what: &str, spread: Spread| {
            let measured = format!("{:.2} / {:.2}", spread.p50, spread.p99);
            [what, &measured, "≤ 0.6 / 2", met(spread.p50 <= 0.6 && spread.p99 <= 2.0)].map(str::to_owned)
        };
        let rate = format!("{:.0}", self.hints_per_second);
        let cpu = format!("{:.1} + {:.1}", self.cpu_us_per_hint, self.redis_cpu_us_per_hint);
        [
            ["hints per second, one process", &rate, "≥ 50000", met(self.hints_per_second >= 50_000.0)]
                .map(str::to_owned),
            ["  CPU per hint, µs: process + Redis", &cpu, "", ""].map(str::to_owned),
            pick_up("idle: hint to handler, ms p50 / p99", self.pick_up_ms),
            pick_up("  sent by another process", self.pick_up_of_another_ms),
        ]
    }
}
