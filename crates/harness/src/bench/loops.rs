//! The five-turn loop: the model answers at once, four times with a call of a tool that only reads, then with an answer.

use std::time::Duration;

use anyhow::{Result, ensure};
use houston_testkit::model_server::Journal;

use super::load::{Meter, WARM_UP, clients, messages, one_after_the_other};
use super::report::{Report, Row};
use super::setup::{Replies, TURNS};
use super::{Bench, workload};

/// Clients of the load.
const CLIENTS: usize = 32;

/// What one loop took, besides what its client saw.
struct Phases {
    /// POST → the model is asked for the first time.
    asked: Duration,
    /// From one request to the model to the next.
    turns: Vec<Duration>,
    /// The last request to the model → done.
    ended: Duration,
}

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let (alone, many) = (bench.size(200, 20), bench.size(5_000, 300));
    let setup = bench.setup(Replies::Loop).await?;
    let goals = setup.goals(WARM_UP + alone).await?;
    let label = "loop: one after the other";
    let (timings, phases) = one_after_the_other(&setup, label, &goals, phases_of).await?;
    let goals = setup.goals(many).await?;
    let warm_up = setup.goals(CLIENTS * 4).await?;
    clients(setup.at(), CLIENTS, ("loop: warming up", warm_up.len()), messages(&warm_up)).await?;
    let meter = Meter::begin(&setup)?;
    let loaded = clients(setup.at(), CLIENTS, ("loop: 32 at once", many), messages(&goals)).await?;
    let spent = meter.end(&setup)?;
    bench.print_statements(&setup)?;
    setup.stop_and_check()?;

    let [first_event, done, post, open, ..] = workload::Timing::rows(&timings);
    let mut rows = vec![
        done.at_most(&[12.0]),
        first_event,
        post,
        open,
        Row::spread("  POST → first call of the model", phases.iter().map(|of| of.asked)),
        Row::spread("  a turn: call of the model → the next", phases.iter().flat_map(|of| of.turns.clone())),
        Row::spread("  last call of the model → done", phases.iter().map(|of| of.ended)),
    ];
    let [rate, cpu, parts] = spent.rows("loop", many);
    let [_, done, ..] = workload::Timing::rows(&loaded);
    rows.extend([rate.titled("32 at once").at_least(500.0), cpu, parts, done]);
    let commits = spent.grown.commits as f64 / many as f64;
    rows.push(Row::of("commits a loop", commits));
    Ok(Report {
        about: format!("loop: {TURNS} turns; {alone} alone, then {many} by {CLIENTS} clients"),
        rows,
    })
}

fn phases_of(timing: &workload::Timing, journal: &Journal) -> Result<Phases> {
    let calls = journal.exchanges();
    ensure!(calls.len() == TURNS, "the model was asked {} times instead of {TURNS}", calls.len());
    Ok(Phases {
        asked: calls[0].at - timing.posted,
        turns: calls.windows(2).map(|pair| pair[1].at - pair[0].at).collect(),
        ended: (timing.posted + timing.done()) - calls[TURNS - 1].at,
    })
}
