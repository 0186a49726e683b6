//! One run after the other, with nothing else to do: how long each part takes.

use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::model_server::Keep;
use serde::Serialize;

use super::database;
use super::spread::Spread;
use super::stage::Stage;
use super::workload;
use houston_xtask::console::Progress;

/// Between two runs: long enough for the last one's commits to be over, and for caches of the processor to cool.
const GAP: Duration = Duration::from_millis(10);
/// Runs before the first that counts.
const WARM_UP: usize = 20;

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Idle {
    /// POST sent → answered.
    pub(crate) accepted_ms: Spread,
    /// Message stored → run claimed, by Postgres' clock.
    pub(crate) claimed_ms: Spread,
    /// POST sent → the model's server has the request.
    pub(crate) post_to_start_ms: Spread,
    /// POST sent → first event of the stream.
    pub(crate) first_event_ms: Spread,
    /// POST sent → first piece of the answer.
    pub(crate) first_text_ms: Spread,
    /// POST sent → clean end of the stream, the answer complete.
    pub(crate) done_ms: Spread,
}

pub(crate) async fn measure(stage: &Stage<'_>, runs: usize) -> Result<Idle> {
    let goals = stage.goals(WARM_UP + runs).await?;
    let (message, answer) = (workload::message(), workload::answer());
    let mut connection = stage.houston.connect().await?;
    let journal = stage.model.journal();
    journal.keep(Keep::Times);
    let mut progress = Progress::new("idle: one run after the other", runs as u64);
    let mut timings = Vec::with_capacity(runs);
    let mut starts = Vec::with_capacity(runs);
    for (nth, goal) in goals.iter().enumerate() {
        tokio::time::sleep(GAP).await;
        journal.clear();
        let timing = workload::run(&mut connection, goal, &message, &answer).await?;
        let asked = journal.last().context("the model was not asked")?.at;
        if nth >= WARM_UP {
            starts.push(asked - timing.posted);
            timings.push(timing);
            progress.step();
        }
    }
    journal.keep(Keep::Counts);
    journal.clear();
    let claimed = database::pick_up_times(stage.servers, runs)?;
    Ok(Idle {
        accepted_ms: Spread::of(timings.iter().map(|timing| timing.accepted - timing.posted)),
        claimed_ms: Spread::of(claimed.into_iter().map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1000.0))),
        post_to_start_ms: Spread::of(starts),
        first_event_ms: Spread::of(timings.iter().map(|timing| timing.first_event - timing.posted)),
        first_text_ms: Spread::of(timings.iter().map(|timing| timing.first_text - timing.posted)),
        done_ms: Spread::of(timings.iter().map(|timing| timing.done - timing.posted)),
    })
}
