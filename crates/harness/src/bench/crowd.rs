//! A crowd: so many messages at the same instant, to a model that streams its answers for two seconds.

use std::time::{Duration, Instant};

use anyhow::Result;
use houston_testkit::console::Progress;

use super::load::{Meter, at_once};
use super::report::{Report, Row, megabytes};
use super::setup::{Replies, Setup};
use super::workload::{self, Timing};
use super::{Bench, machine};
use crate::proc;

/// How long the model streams an answer.
const STREAMS: Duration = Duration::from_secs(2);
/// Messages at once, and the median time within which they are to be answered, in ms.
const FULL: &[(usize, f64)] = &[(1_000, 2_400.0), (3_000, 3_200.0)];
const QUICK: &[(usize, f64)] = &[(300, 2_400.0)];
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    machine::allow_many_files()?;
    let mut rows = Vec::new();
    for &(messages, aim) in bench.size(FULL, QUICK) {
        // A process each: memory that an earlier crowd has left would be counted.
        let setup = bench.setup(Replies::Text).await?;
        // What the first messages of a process pay is not counted: a crowd meets a service that runs.
        let goals = setup.goals(100).await?;
        let (mut few, start) = at_once(&setup, &goals).await?;
        start.wait().await;
        while let Some(run) = few.join_next().await {
            run??;
        }
        setup.answer(&setup.text().every(STREAMS / u32::try_from(workload::PIECES)?));
        rows.extend(of(&setup, messages, aim).await?);
        setup.stop_and_check()?;
    }
    Ok(Report { about: format!("crowd: messages at the same instant, the model streams {STREAMS:?}"), rows })
}

async fn of(setup: &Setup, messages: usize, aim: f64) -> Result<Vec<Row>> {
    let goals = setup.goals(messages).await?;
    let rest = setup.rest(Duration::from_secs(1)).await?;
    let mut progress = Progress::new(&format!("crowd: {messages} messages"), messages as u64);
    let (mut clients, start) = at_once(setup, &goals).await?;
    let meter = Meter::begin(setup)?;
    start.wait().await;
    let began = Instant::now();
    let (mut timings, mut peak) = (Vec::with_capacity(messages), 0);
    let mut tick = tokio::time::interval(LOOK);
    // Of the machine, while the answers stream: the share that is idle is what the crowd could still have used.
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                Some(ended) => timings.push(ended??),
                None => break,
            },
            _ = tick.tick() => {
                peak = peak.max(proc::rss_of(&setup.houston)?);
                progress.reach(timings.len() as u64);
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let spent = meter.end(setup)?;
    let [_, _, parts] = spent.rows("run", messages);
    let [first_event, done, phases @ ..] = Timing::rows(&timings);
    let busy: Duration = spent.cpu.iter().sum();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let mut rows = vec![
        Row::of(format!("{messages} messages: until the last is answered, s"), seconds),
        done.at_most(&[aim]),
        first_event,
    ];
    rows.extend(phases);
    rows.extend([
        parts,
        Row::of("  of the processors in use meanwhile, %", busy.as_secs_f64() * 100.0 / (seconds * cores)),
        Row::of(
            "  memory at most, KB each, with a stream",
            (megabytes(peak) - rest.rss_mb).max(0.0) * 1000.0 / messages as f64,
        ),
    ]);
    Ok(rows)
}
