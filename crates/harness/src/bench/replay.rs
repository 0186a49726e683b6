//! How long a recorded run takes to be replayed: the state machine alone, and the whole command.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use tokio::process::Command;

use super::spread::{Spread, round};
use houston_testkit::console::Progress;
use houston_testkit::repository;

/// A run of twenty iterations, of the traces that every change must replay.
const TRACE: &str = "crates/cli/tests/traces/twenty_iterations.trace.jsonl";
/// Most milliseconds that its replay may take.
const GOAL_MS: f64 = 10.0;
/// Replays within one process; the median counts.
const REPLAYS: usize = 100;

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Replays {
    pub(crate) iterations: u64,
    pub(crate) processes: usize,
    /// The median of a hundred replays in a process, over all processes.
    pub(crate) replay_ms: Spread,
    /// From the start of the process to its end: settings, tools, the trace, a hundred replays.
    pub(crate) process_ms: Spread,
    pub(crate) goal_ms: f64,
}

/// Starts `houston replay` so often, one after the other.
pub(crate) async fn measure(program: &Path, processes: usize) -> Result<Replays> {
    let mut progress = Progress::new("replaying a run of twenty iterations", processes as u64);
    let (mut replays, mut whole) = (Vec::with_capacity(processes), Vec::with_capacity(processes));
    let (trace, mut iterations) = (repository::root().join(TRACE), 0);
    for _ in 0..processes {
        let started = Instant::now();
        let mut command = Command::new(program);
        command.arg("replay").arg(&trace).args(["--json", "--repeat", &REPLAYS.to_string()]);
        let output = command.kill_on_drop(true).output().await?;
        whole.push(started.elapsed());
        ensure!(output.status.success(), "houston replay: {}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout)?;
        let ms = printed["ms"].as_f64().context("`ms` is missing")?;
        replays.push(Duration::from_secs_f64(ms / 1_000.0));
        iterations = printed["replayed"]["iterations"].as_u64().context("`iterations` is missing")?;
        progress.step();
    }
    Ok(Replays {
        iterations,
        processes,
        replay_ms: Spread::of(replays),
        process_ms: Spread::of(whole),
        goal_ms: GOAL_MS,
    })
}

impl Replays {
    /// For people.
    pub(crate) fn table(&self) -> String {
        let Self { iterations, processes, replay_ms, process_ms, goal_ms } = self;
        let mut text =
            format!("{processes} processes, {REPLAYS} replays each, of a run of {iterations} iterations\n");
        let met = if replay_ms.p99 <= *goal_ms { "met" } else { "NOT met" };
        let row = |name: &str, spread: &Spread| {
            format!("{name:<14} {:>9.3} ms p50 {:>9.3} ms p99\n", round(spread.p50), round(spread.p99))
        };
        text += &row("one replay", replay_ms);
        text += &row("the command", process_ms);
        let _ = write!(text, "goal: a replay within {goal_ms} ms: {met}");
        text
    }
}
