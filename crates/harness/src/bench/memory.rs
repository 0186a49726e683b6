//! Memory of runs that wait for a slow model, with a client that reads the stream of each and without.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::FutureExt as _;
use houston_testkit::console::print_status;
use houston_testkit::model_server::Gate;
use tokio::task::JoinSet;

use super::load::{at_once, clients};
use super::report::{Report, Row, megabytes};
use super::setup::{Replies, Setup};
use super::workload::{self, Timing};
use super::{Bench, machine};
use crate::proc;

/// Timeout for all runs to reach the model, or to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Clients that only post.
const CLIENTS: usize = 16;

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    machine::allow_many_files()?;
    let (runs, hold) = (bench.size(2_000, 200), bench.size(Duration::from_secs(5), Duration::from_secs(1)));
    let mut each = Vec::new();
    let mut rows = Vec::new();
    for (what, is_streamed, aim) in [("held run", false, 20.0), ("held run with its stream", true, 40.0)] {
        print_status(&format!("memory: {runs} times a {what}"));
        // A new process, so that memory left over from earlier load is not counted.
        let setup = bench.setup(Replies::Text).await?;
        let (kb_each, others) = held(&setup, runs, hold, is_streamed).await?;
        setup.stop_and_check()?;
        each.push(kb_each);
        rows.push(Row::of(format!("{what}, KB"), kb_each).at_most(&[aim]));
        rows.extend(others);
    }
    rows.push(Row::of("so a stream, KB", each[1] - each[0]));
    Ok(Report { about: format!("memory: {runs} runs that wait for the model"), rows })
}

/// The memory of a held run in KB, and what else is reported of them.
async fn held(setup: &Setup, runs: usize, hold: Duration, is_streamed: bool) -> Result<(f64, [Row; 2])> {
    let goals = setup.goals(runs).await?;
    let rest = setup.rest(Duration::from_secs(1)).await?;
    let gate = Gate::new();
    setup.answer(&setup.text().held_by(&gate));
    let began = Instant::now();
    let mut readers: JoinSet<Result<Timing>> = JoinSet::new();
    if is_streamed {
        let start;
        (readers, start) = at_once(setup, &goals).await?;
        start.wait().await;
    } else {
        clients(setup.at(), CLIENTS, ("memory: posting", runs), move |connection, nth| {
            let goals = goals.clone();
            async move { connection.send_message(&goals[nth], &workload::MESSAGE).await.map(drop) }.boxed()
        })
        .await?;
    }
    // A client's error is returned by `join_next` below.
    let held = setup.model.journal().wait_until(PATIENCE, |journal| journal.open() >= runs).await;
    ensure!(held, "only {} of {runs} runs reached the model", setup.model.journal().open());
    let seconds = began.elapsed().as_secs_f64();
    let (mut peak, end) = (0, Instant::now() + hold);
    while Instant::now() < end {
        peak = peak.max(proc::rss_of(&setup.houston)?);
        tokio::time::sleep(LOOK).await;
    }
    gate.open();
    while let Some(reader) = readers.join_next().await {
        reader??;
    }
    setup.settle(PATIENCE).await?;
    tokio::time::sleep(hold).await;
    let kb_each = (megabytes(peak) - rest.rss_mb).max(0.0) * 1000.0 / runs as f64;
    let after = Row::of("  RSS when all have ended, MB", megabytes(proc::rss_of(&setup.houston)?));
    Ok((kb_each, [Row::of("  first POST → all are held, s", seconds), after]))
}
