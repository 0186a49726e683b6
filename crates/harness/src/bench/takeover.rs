//! How soon a run goes on elsewhere when one of two workers is killed, or asked to stop.

use anyhow::Result;

use super::Bench;
use super::report::{Report, Row};
use crate::recovery::{self, Plan};

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let servers = bench.servers()?;
    let plan = Plan { kills: bench.size(100, 5), stops: bench.size(30, 3), workers: 2, runs: 4 };
    let [kills, stops] = recovery::times(&bench.program, &servers, plan).await?;
    let Plan { workers, runs, .. } = plan;
    Ok(Report {
        about: format!(
            "takeover: {} kills and {} stops of one of {workers} workers with {runs} runs; the run that waited longest",
            plan.kills, plan.stops
        ),
        rows: vec![
            Row::spread("kill -9 → claimed elsewhere", kills.slowest).at_most(&[300.0, 1000.0]),
            Row::spread("  → the model is asked again", kills.asked),
            Row::spread("SIGTERM → claimed elsewhere", stops.slowest).at_most(&[100.0]),
            Row::spread("  → the model is asked again", stops.asked),
            Row::spread("  → the process has ended", stops.exits).at_most(&[2000.0, 25_000.0]),
        ],
    })
}
