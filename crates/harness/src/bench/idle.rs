//! Latency without load: one run after the other.

use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::model_server::JournalDetail;
use serde::Serialize;

use super::database;
use super::installation::BenchInstallation;
use super::spread::Spread;
use super::workload;
use houston_xtask::console::Progress;

/// Pause between two runs: long enough for the commits of the last run to end and for processor caches to cool.
const GAP: Duration = Duration::from_millis(10);
/// Runs that are not counted.
const WARM_UP: usize = 20;

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Idle {
    /// POST sent → response received.
    pub(crate) accepted_ms: Spread,
    /// Message stored → run claimed, by Postgres' clock.
    pub(crate) claimed_ms: Spread,
    /// POST sent → model call received by the model server.
    pub(crate) post_to_start_ms: Spread,
    /// POST sent → first event of the stream.
    pub(crate) first_event_ms: Spread,
    /// POST sent → first piece of the answer.
    pub(crate) first_text_ms: Spread,
    /// POST sent → end of the stream, with the complete answer.
    pub(crate) done_ms: Spread,
}

pub(crate) async fn measure(installation: &BenchInstallation<'_>, runs: usize) -> Result<Idle> {
    let goals = installation.goals(WARM_UP + runs).await?;
    let (message, answer) = (workload::message(), workload::answer());
    let mut connection = installation.houston.connect().await?;
    let journal = installation.model.journal();
    journal.set_detail(JournalDetail::Times);
    let mut progress = Progress::new("idle: one run after the other", runs as u64);
    let mut timings = Vec::with_capacity(runs);
    let mut starts = Vec::with_capacity(runs);
    for (nth, goal) in goals.iter().enumerate() {
        tokio::time::sleep(GAP).await;
        journal.clear();
        let timing = workload::run(&mut connection, goal, &message, &answer).await?;
        let asked = journal.last().context("the model server received no call")?.at;
        if nth >= WARM_UP {
            starts.push(asked - timing.posted);
            timings.push(timing);
            progress.step();
        }
    }
    journal.set_detail(JournalDetail::Counts);
    journal.clear();
    let claimed = database::pick_up_times(installation.servers, runs)?;
    Ok(Idle {
        accepted_ms: Spread::of(timings.iter().map(|timing| timing.accepted - timing.posted)),
        claimed_ms: Spread::of(claimed.into_iter().map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1000.0))),
        post_to_start_ms: Spread::of(starts),
        first_event_ms: Spread::of(timings.iter().map(|timing| timing.first_event - timing.posted)),
        first_text_ms: Spread::of(timings.iter().map(|timing| timing.first_text - timing.posted)),
        done_ms: Spread::of(timings.iter().map(|timing| timing.done - timing.posted)),
    })
}
