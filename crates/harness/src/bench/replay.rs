//! How long a recorded run takes to be replayed: the state machine alone, and the whole command. It needs no server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use houston_testkit::console::Progress;
use houston_testkit::repository;
use serde_json::Value;
use tokio::process::Command;

use super::Bench;
use super::report::{Report, Row};
use super::spread::Spread;

/// A run of twenty iterations, of the traces that every change must replay.
const TRACE: &str = "crates/cli/tests/traces/twenty_iterations.trace.jsonl";
/// Replays within one process; the median counts.
const REPLAYS: usize = 100;

/// Starts `houston replay` so often, one after the other.
pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let processes = bench.size(50, 5);
    let mut progress = Progress::new("replaying a run of twenty iterations", processes as u64);
    let (mut replays, mut whole) = (Vec::with_capacity(processes), Vec::with_capacity(processes));
    let trace = repository::root().join(TRACE);
    for _ in 0..processes {
        let started = Instant::now();
        let mut command = Command::new(&bench.program);
        command.arg("replay").arg(&trace).args(["--json", "--repeat", &REPLAYS.to_string()]);
        let output = command.kill_on_drop(true).output().await?;
        whole.push(started.elapsed());
        ensure!(output.status.success(), "houston replay: {}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout)?;
        let ms = printed["ms"].as_f64().context("`ms` is missing")?;
        replays.push(Duration::from_secs_f64(ms / 1_000.0));
        progress.step();
    }
    let replay = Row::spread("replay_ms", "one replay", Spread::of(replays)).at_most(&[10.0, 10.0]);
    let process = Row::spread("process_ms", "the command, with its start", Spread::of(whole));
    let about = format!("replay: a run of twenty iterations; {processes} processes, {REPLAYS} times each");
    Ok(Report { about, rows: vec![replay, process] })
}
