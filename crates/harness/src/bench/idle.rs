//! Latency without load: one run after the other on a service that does nothing else, beside what the disk takes for one
//! commit.

use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::console::Progress;
use houston_testkit::model_server::JournalDetail;

use super::load::Meter;
use super::report::{Report, Row};
use super::setup::{Replies, Setup};
use super::{Bench, machine, workload};
use crate::spread::Spread;

/// Pause between two runs: long enough for the commits of the last run to end and for processor caches to cool.
const GAP: Duration = Duration::from_millis(10);
/// Runs that are not counted.
const WARM_UP: usize = 20;

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let servers = bench.servers()?;
    let runs = bench.size(500, 50);
    let setup = Setup::start(bench.houston(), &servers, Replies::Text).await?;
    let disk = machine::fdatasync(&servers.folder(), runs)?;
    let goals = setup.goals(WARM_UP + runs).await?;
    let (message, answer) = (workload::message(), workload::answer());
    let mut connection = setup.connect().await?;
    let journal = setup.model.journal();
    journal.set_detail(JournalDetail::Times);
    let mut progress = Progress::new("idle: one run after the other", runs as u64);
    let meter = Meter::begin(&setup)?;
    let (mut timings, mut starts) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
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
    let [_, cpu, parts] = meter.end(&setup)?.rows("", "run", WARM_UP + runs);
    setup.stop_and_check()?;
    let first = Spread::of(timings.iter().map(workload::Timing::first_event));
    let aim = 2.0 * first.p50;
    let [first, done, phases @ ..] = workload::Timing::rows("", &timings);
    let mut rows = vec![first.at_most(&[1.8, aim]), done.at_most(&[3.0])];
    rows.extend(phases);
    rows.extend([cpu, parts]);
    rows.push(Row::spread("asked_ms", "POST → the model is asked", Spread::of(starts)));
    rows.push(Row::spread("fdatasync_ms", "fdatasync of a block, alone", disk));
    Ok(Report { about: format!("idle: {runs} runs, one after the other"), rows })
}
