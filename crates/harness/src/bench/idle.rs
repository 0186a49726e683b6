//! Latency without load: one run after the other on a service that does nothing else, beside what the disk takes for one
//! commit.

use anyhow::{Context, Result};
use houston_testkit::model_server::Journal;

use super::load::{Meter, WARM_UP, one_after_the_other};
use super::report::{Report, Row};
use super::setup::Replies;
use super::{Bench, machine, workload};
use crate::spread::Spread;

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let runs = bench.size(500, 50);
    let setup = bench.setup(Replies::Text).await?;
    let disk = machine::fdatasync(&setup.servers().folder(), runs)?;
    let goals = setup.goals(WARM_UP + runs).await?;
    let meter = Meter::begin(&setup)?;
    let asked = |timing: &workload::Timing, journal: &Journal| {
        Ok(journal.last().context("the model server received no call")?.at - timing.posted)
    };
    let (timings, starts) =
        one_after_the_other(&setup, "idle: one run after the other", &goals, asked).await?;
    let [_, cpu, parts] = meter.end(&setup)?.rows("run", WARM_UP + runs);
    setup.stop_and_check()?;
    let first = Spread::of(timings.iter().map(workload::Timing::first_event));
    let aim = 2.0 * first.p50;
    let [first, done, phases @ ..] = workload::Timing::rows(&timings);
    let mut rows = vec![first.at_most(&[1.8, aim]), done.at_most(&[3.0])];
    rows.extend(phases);
    rows.extend([cpu, parts]);
    rows.push(Row::spread("POST → the model is asked", starts));
    rows.push(Row::spread("fdatasync of a block, alone", disk));
    Ok(Report { about: format!("idle: {runs} runs, one after the other"), rows })
}
