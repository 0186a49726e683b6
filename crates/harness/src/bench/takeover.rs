//! How soon a run goes on elsewhere when one of two workers is killed, or asked to stop.

use anyhow::Result;

use super::Bench;
use super::report::{Report, Row};
use crate::recovery::{self, Plan, Times};
use crate::spread::Spread;

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let servers = bench.servers()?;
    let plan = Plan { kills: bench.size(100, 5), stops: bench.size(30, 3), workers: 2, runs: 4 };
    let [kills, stops] = recovery::times(&bench.program, &servers, plan).await?;
    let spread = |times: &[std::time::Duration]| Spread::of(times.iter().copied());
    let rows = |key: &str, what: &str, times: &Times| {
        [
            Row::spread(
                format!("{key}_claimed_ms"),
                format!("{what} → claimed elsewhere"),
                spread(&times.slowest),
            ),
            Row::spread(format!("{key}_asked_ms"), "  → the model is asked again", spread(&times.asked)),
        ]
    };
    let [killed, asked] = rows("kill", "kill -9", &kills);
    let [stopped, asked_after_stop] = rows("stop", "SIGTERM", &stops);
    let Plan { workers, runs, .. } = plan;
    Ok(Report {
        about: format!(
            "takeover: {} kills and {} stops of one of {workers} workers with {runs} runs; the run that waited longest",
            plan.kills, plan.stops
        ),
        rows: vec![
            killed.at_most(&[300.0, 1000.0]),
            asked,
            stopped.at_most(&[100.0]),
            asked_after_stop,
            Row::spread("stop_exit_ms", "  → the process has ended", spread(&stops.exits))
                .at_most(&[2000.0, 25_000.0]),
        ],
    })
}
