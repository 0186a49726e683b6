//! Latency without load: one run after the other.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::houston::Houston;
use houston_testkit::model_server::JournalDetail;
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::report::Row;
use super::setup::{Replies, Rest, Setup};
use super::spread::Spread;
use super::{Size, database, workload};
use houston_testkit::console::Progress;

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

impl Idle {
    pub(crate) fn rows(&self) -> Vec<Row> {
        let Self { post_to_start_ms: start, first_event_ms: first, done_ms: done, .. } = self;
        vec![
            Row::of("idle: POST to start, ms p50 / p99", start.to_string()).at_most(start.p50, 3.0),
            Row::of("idle: first event, ms p50 / p99", first.to_string())
                .at_most(first.p50, 3.0)
                .best_other("10 / 20"),
            Row::of("idle: done, ms p50 / p99", done.to_string())
                .at_most(done.p50, 7.0)
                .best_other("16 / 37"),
        ]
    }
}

/// The service at rest, and one run after the other.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Alone {
    #[serde(flatten)]
    rest: Rest,
    #[serde(flatten)]
    idle: Idle,
}

impl Alone {
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = self.idle.rows();
        rows.push(self.rest.row());
        rows
    }
}

/// Measures a process that does nothing else.
pub(crate) async fn measure_alone(program: &Path, servers: &TestServers, size: Size) -> Result<Alone> {
    let setup = Setup::start(Houston::builder(program), servers, Replies::Text).await?;
    let rest = setup.rest(size.hold).await?;
    let idle = measure(&setup, size.idle_runs).await?;
    setup.stop_and_check()?;
    Ok(Alone { rest, idle })
}

/// One run after the other.
pub(crate) async fn measure(setup: &Setup<'_>, runs: usize) -> Result<Idle> {
    let goals = setup.goals(WARM_UP + runs).await?;
    let (message, answer) = (workload::message(), workload::answer());
    let mut connection = setup.connect().await?;
    let journal = setup.model.journal();
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
    Ok(Idle {
        accepted_ms: Spread::of(timings.iter().map(|timing| timing.accepted - timing.posted)),
        claimed_ms: database::pick_up_times(
            setup.servers,
            "houston.runs where started_at is not null",
            runs as u64,
        )?,
        post_to_start_ms: Spread::of(starts),
        first_event_ms: Spread::of(timings.iter().map(|timing| timing.first_event - timing.posted)),
        first_text_ms: Spread::of(timings.iter().map(|timing| timing.first_text - timing.posted)),
        done_ms: Spread::of(timings.iter().map(|timing| timing.done - timing.posted)),
    })
}
