//! Memory per run that waits for a slow model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_testkit::model_server::Gate;
use serde::Serialize;
use tokio::task::JoinSet;

use super::installation::BenchInstallation;
use super::report::megabytes;
use super::spread::round;
use super::{database, workload};
use houston_xtask::console::print_status;

/// Timeout for all runs to reach the model, or to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often memory is measured.
const MEASURE_INTERVAL: Duration = Duration::from_millis(250);

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Held {
    pub(crate) runs: usize,
    /// Whether each run has a client that reads its stream.
    pub(crate) streamed: bool,
    /// From the first POST until the model has the calls of all runs.
    pub(crate) seconds_to_hold: f64,
    /// From the model's first answer until all runs have ended.
    pub(crate) seconds_to_end: f64,
    pub(crate) peak_mb: f64,
    pub(crate) kb_per_run: f64,
    /// Memory some seconds after the last run ended.
    pub(crate) after_mb: f64,
}

/// Holds `runs` runs for the time `hold`; `rest` is the memory at rest, in bytes.
pub(crate) async fn measure(
    installation: &BenchInstallation<'_>,
    runs: usize,
    hold: Duration,
    streamed: bool,
    rest: u64,
) -> Result<Held> {
    let kind = if streamed { "with a stream each" } else { "without streams" };
    print_status(&format!("holding {runs} runs, {kind}"));
    let goals = installation.goals(runs).await?;
    let gate = Gate::new();
    installation.answer_behind(&gate);
    let began = Instant::now();
    let mut clients = JoinSet::new();
    if streamed {
        watch(installation, &goals, &mut clients).await?
    } else {
        post(installation, &goals, &mut clients).await?
    }
    // A client's error is returned by `join_next` below.
    let held = installation.model.journal().wait_until(PATIENCE, |journal| journal.open() >= runs).await;
    ensure!(held, "only {} of {runs} runs reached the model", installation.model.journal().open());
    let seconds_to_hold = round(began.elapsed().as_secs_f64());
    let (mut peak, end) = (0, Instant::now() + hold);
    while Instant::now() < end {
        peak = peak.max(installation.houston.rss()?);
        tokio::time::sleep(MEASURE_INTERVAL).await;
    }
    let began = Instant::now();
    gate.open();
    while let Some(client) = clients.join_next().await {
        client??;
        peak = peak.max(installation.houston.rss()?);
    }
    wait_until_all_ended(installation).await?;
    let seconds_to_end = round(began.elapsed().as_secs_f64());
    installation.answer_at_once();
    tokio::time::sleep(hold).await;
    let kb_per_run = round(peak.saturating_sub(rest) as f64 / runs as f64 / 1000.0);
    let held = Held {
        runs,
        streamed,
        seconds_to_hold,
        seconds_to_end,
        peak_mb: megabytes(peak),
        kb_per_run,
        after_mb: megabytes(installation.houston.rss()?),
    };
    print_status(&format!("  {:.1} MB at most: {kb_per_run:.1} KB each", held.peak_mb));
    Ok(held)
}

/// A client per goal that posts and reads the stream.
async fn watch(
    installation: &BenchInstallation<'_>,
    goals: &Arc<Vec<String>>,
    clients: &mut JoinSet<Result<()>>,
) -> Result<()> {
    let texts = Arc::new((workload::message(), workload::answer()));
    for nth in 0..goals.len() {
        let mut connection = installation.houston.connect().await?;
        let (goals, texts) = (Arc::clone(goals), Arc::clone(&texts));
        clients.spawn(async move {
            workload::run(&mut connection, &goals[nth], &texts.0, &texts.1).await.map(drop)
        });
    }
    Ok(())
}

/// A few clients that post without reading streams.
async fn post(
    installation: &BenchInstallation<'_>,
    goals: &Arc<Vec<String>>,
    clients: &mut JoinSet<Result<()>>,
) -> Result<()> {
    const AT_ONCE: usize = 16;
    for client in 0..AT_ONCE {
        let (mut connection, goals) = (installation.houston.connect().await?, Arc::clone(goals));
        clients.spawn(async move {
            let message = workload::message();
            for goal in goals.iter().skip(client).step_by(AT_ONCE) {
                let path = format!("/v1/goals/{goal}/messages");
                connection.post(&path, &message).await?.json::<serde_json::Value>()?;
            }
            Ok(())
        });
    }
    Ok(())
}

async fn wait_until_all_ended(installation: &BenchInstallation<'_>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let open = database::count(installation.servers, "houston.run_locks where run_open")?;
        if open == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{open} runs did not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
