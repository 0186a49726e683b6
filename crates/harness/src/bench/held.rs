//! Memory per run that waits for a slow model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_testkit::model_server::Gate;
use serde::Serialize;
use tokio::task::JoinSet;

use super::report::megabytes;
use super::setup::Setup;
use super::spread::round;
use super::{database, workload};
use crate::proc;
use crate::wait::wait_until;
use houston_testkit::console::print_status;

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

/// Holds `runs` runs for the time `hold`; `rest_mb` is the memory at rest.
pub(crate) async fn measure(
    setup: &Setup<'_>,
    runs: usize,
    hold: Duration,
    streamed: bool,
    rest_mb: f64,
) -> Result<Held> {
    let kind = if streamed { "with a stream each" } else { "without streams" };
    print_status(&format!("holding {runs} runs, {kind}"));
    let goals = setup.goals(runs).await?;
    let gate = Gate::new();
    setup.answer_behind(&gate);
    let began = Instant::now();
    let mut clients = JoinSet::new();
    if streamed {
        watch(setup, &goals, &mut clients).await?
    } else {
        post(setup, &goals, &mut clients).await?
    }
    // A client's error is returned by `join_next` below.
    let held = setup.model.journal().wait_until(PATIENCE, |journal| journal.open() >= runs).await;
    ensure!(held, "only {} of {runs} runs reached the model", setup.model.journal().open());
    let seconds_to_hold = round(began.elapsed().as_secs_f64());
    let (mut peak, end) = (0, Instant::now() + hold);
    while Instant::now() < end {
        peak = peak.max(proc::rss_of(&setup.houston)?);
        tokio::time::sleep(MEASURE_INTERVAL).await;
    }
    let began = Instant::now();
    gate.open();
    while let Some(client) = clients.join_next().await {
        client??;
        peak = peak.max(proc::rss_of(&setup.houston)?);
    }
    let is_over = async || Ok(database::count(setup.servers, "houston.run_locks where run_open")? == 0);
    wait_until(PATIENCE, is_over, || "not all runs ended".to_owned()).await?;
    let seconds_to_end = round(began.elapsed().as_secs_f64());
    setup.answer_at_once();
    tokio::time::sleep(hold).await;
    let peak_mb = megabytes(peak);
    let kb_per_run = round((peak_mb - rest_mb).max(0.0) * 1000.0 / runs as f64);
    let held = Held {
        runs,
        streamed,
        seconds_to_hold,
        seconds_to_end,
        peak_mb,
        kb_per_run,
        after_mb: megabytes(proc::rss_of(&setup.houston)?),
    };
    print_status(&format!("  {:.1} MB at most: {kb_per_run:.1} KB each", held.peak_mb));
    Ok(held)
}

/// A client per goal that posts and reads the stream.
async fn watch(setup: &Setup<'_>, goals: &Arc<Vec<String>>, clients: &mut JoinSet<Result<()>>) -> Result<()> {
    let texts = Arc::new((workload::message(), workload::answer()));
    for nth in 0..goals.len() {
        let mut connection = setup.connect().await?;
        let (goals, texts) = (Arc::clone(goals), Arc::clone(&texts));
        clients.spawn(async move {
            workload::run(&mut connection, &goals[nth], &texts.0, &texts.1).await.map(drop)
        });
    }
    Ok(())
}

/// A few clients that post without reading streams.
async fn post(setup: &Setup<'_>, goals: &Arc<Vec<String>>, clients: &mut JoinSet<Result<()>>) -> Result<()> {
    const AT_ONCE: usize = 16;
    for client in 0..AT_ONCE {
        let (mut connection, goals) = (setup.connect().await?, Arc::clone(goals));
        clients.spawn(async move {
            let message = workload::message();
            for goal in goals.iter().skip(client).step_by(AT_ONCE) {
                connection.send_message(goal, &message).await?;
            }
            Ok(())
        });
    }
    Ok(())
}
