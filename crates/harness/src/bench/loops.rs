//! The five-turn loop: the model answers at once, four times with a call of a tool that only reads, then with an answer.

use std::time::Duration;

use anyhow::{Result, ensure};
use houston_testkit::console::Progress;
use houston_testkit::model_server::JournalDetail;

use super::load::{Messages, Meter, clients};
use super::report::{Report, Row};
use super::setup::{Replies, Setup, TURNS};
use super::{Bench, workload};
use crate::spread::Spread;

/// Pause between two loops, and loops that are not counted, as with single runs.
const GAP: Duration = Duration::from_millis(10);
const WARM_UP: usize = 10;
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
    let servers = bench.servers()?;
    let (alone, many) = (bench.size(200, 20), bench.size(5_000, 300));
    let setup = Setup::start(bench.houston(), &servers, Replies::Loop).await?;
    let (timings, phases) = one_after_the_other(&setup, alone).await?;
    let goals = setup.goals(many).await?;
    let warm_up = setup.goals(CLIENTS * 4).await?;
    clients(&setup, CLIENTS, ("loop: warming up", warm_up.len()), Messages::to(&warm_up)).await?;
    let meter = Meter::begin(&setup)?;
    let loaded = clients(&setup, CLIENTS, ("loop: 32 at once", many), Messages::to(&goals)).await?;
    let spent = meter.end(&setup)?;
    bench.print_statements(&servers)?;
    setup.stop_and_check()?;

    let [first_event, done, post, open, ..] = workload::Timing::rows("", &timings);
    let mut rows = vec![
        done.at_most(&[12.0]),
        first_event,
        post,
        open,
        Row::spread(
            "asked_ms",
            "  POST → first call of the model",
            Spread::of(phases.iter().map(|phases| phases.asked)),
        ),
        Row::spread(
            "turn_ms",
            "  a turn: call of the model → the next",
            Spread::of(phases.iter().flat_map(|phases| phases.turns.iter().copied())),
        ),
        Row::spread(
            "end_ms",
            "  last call of the model → done",
            Spread::of(phases.iter().map(|phases| phases.ended)),
        ),
    ];
    let [rate, cpu, parts] = spent.rows("at_32_", "loop", many);
    let [_, done, ..] = workload::Timing::rows("at_32_", &loaded);
    rows.extend([rate.titled("32 at once").at_least(500.0), cpu, parts, done]);
    let commits = spent.grown.commits as f64 / many as f64;
    rows.push(Row::of("at_32_commits", "commits a loop", commits));
    Ok(Report {
        about: format!("loop: {TURNS} turns; {alone} alone, then {many} by {CLIENTS} clients"),
        rows,
    })
}

async fn one_after_the_other(
    setup: &Setup<'_>,
    loops: usize,
) -> Result<(Vec<workload::Timing>, Vec<Phases>)> {
    let goals = setup.goals(WARM_UP + loops).await?;
    let (message, answer) = (workload::message(), workload::answer());
    let mut connection = setup.connect().await?;
    let journal = setup.model.journal();
    journal.set_detail(JournalDetail::Times);
    let mut progress = Progress::new("loop: one after the other", loops as u64);
    let (mut timings, mut phases) = (Vec::with_capacity(loops), Vec::with_capacity(loops));
    for (nth, goal) in goals.iter().enumerate() {
        tokio::time::sleep(GAP).await;
        journal.clear();
        let timing = workload::run(&mut connection, goal, &message, &answer).await?;
        let calls = journal.exchanges();
        ensure!(calls.len() == TURNS, "the model was asked {} times instead of {TURNS}", calls.len());
        if nth >= WARM_UP {
            phases.push(Phases {
                asked: calls[0].at - timing.posted,
                turns: calls.windows(2).map(|pair| pair[1].at - pair[0].at).collect(),
                ended: (timing.posted + timing.done()) - calls[TURNS - 1].at,
            });
            timings.push(timing);
            progress.step();
        }
    }
    journal.set_detail(JournalDetail::Counts);
    journal.clear();
    Ok((timings, phases))
}
