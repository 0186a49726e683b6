//! Throughput under full load, and the cost of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tokio::task::JoinSet;

use super::Size;
use super::setup::{GOALS_OF_A_USER, Rest, Setup};
use super::spread::{Spread, round};
use super::workload::{self, Timing};
use crate::http::Connection;
use crate::proc;
use houston_testkit::console::Progress;

/// Runs that estimate the throughput, after as many warm-up runs.
const PROBE: usize = 600;

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Saturated {
    pub(crate) runs: usize,
    pub(crate) seconds: f64,
    pub(crate) runs_per_second: f64,
    pub(crate) first_event_ms: Spread,
    pub(crate) done_ms: Spread,
    pub(crate) cpu_ms_per_run: Shares,
    /// Transactions that wrote, minus those of the service at rest.
    pub(crate) commits_per_run: f64,
    pub(crate) wal_bytes_per_run: f64,
    /// Growth of all tables and indexes.
    pub(crate) bytes_per_turn: f64,
    /// Mean number of pieces of a run's text: fewer than the model sent when several were ready at once.
    pub(crate) pieces_per_run: f64,
    /// Processor time of this program, which is both client and model.
    pub(crate) load_cpu_ms_per_run: f64,
}

/// Processor time by process.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Shares {
    pub(crate) houston: f64,
    pub(crate) postgres: f64,
    pub(crate) redis: f64,
}

impl Shares {
    pub(crate) fn sum(self) -> f64 {
        round(self.houston + self.postgres + self.redis)
    }
}

pub(crate) async fn measure(
    setup: &Setup<'_>,
    size: Size,
    rest: &Rest,
    journey: Journey,
) -> Result<Saturated> {
    let goals = setup.goals(2 * PROBE).await?;
    drive(setup, &Work::goals(&goals[..PROBE]), size.concurrency, "warming up").await?;
    let began = Instant::now();
    drive(setup, &Work::goals(&goals[PROBE..]), size.concurrency, "warming up").await?;
    let rate = PROBE as f64 / began.elapsed().as_secs_f64();
    let runs = (rate * size.saturated.as_secs_f64()).ceil().max(1.0) as usize;

    let work = match journey {
        Journey::FromMessage => Work::goals(&setup.goals(runs).await?),
        Journey::FromGoal => Work::of_users(users(setup, runs.div_ceil(GOALS_OF_A_USER)).await?, runs),
    };
    let (before, cpu, load) = (setup.counters()?, setup.cpu()?, proc::own_cpu()?);
    let label = format!("saturated: {} at once", size.concurrency);
    let began = Instant::now();
    let timings = drive(setup, &work, size.concurrency, &label).await?;
    let seconds = began.elapsed().as_secs_f64();
    let (spent, load) = (setup.cpu()?.since(cpu), proc::own_cpu()? - load);
    let grown = setup.counters()?.since(before);

    let per_run = |amount: f64| round(amount / runs as f64);
    let ms_per_run = |time: Duration| per_run(time.as_secs_f64() * 1000.0);
    let background = rest.commits_per_second * seconds;
    Ok(Saturated {
        runs,
        seconds: round(seconds),
        runs_per_second: round(runs as f64 / seconds),
        first_event_ms: Spread::of(timings.iter().map(|timing| timing.first_event - timing.posted)),
        done_ms: Spread::of(timings.iter().map(|timing| timing.done - timing.posted)),
        cpu_ms_per_run: Shares {
            houston: ms_per_run(spent.houston),
            postgres: ms_per_run(spent.postgres),
            redis: ms_per_run(spent.redis),
        },
        commits_per_run: per_run(grown.commits as f64 - background),
        wal_bytes_per_run: per_run(grown.wal as f64),
        bytes_per_turn: per_run(grown.stored as f64),
        pieces_per_run: per_run(timings.iter().map(|timing| timing.pieces).sum::<usize>() as f64),
        load_cpu_ms_per_run: ms_per_run(load),
    })
}

async fn users(setup: &Setup<'_>, count: usize) -> Result<Vec<String>> {
    let (mut connection, mut users) = (setup.connect().await?, Vec::with_capacity(count));
    for _ in 0..count {
        users.push(connection.user("bench").await?);
    }
    Ok(users)
}

/// What a client of the service does for each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journey {
    /// It posts a message to a goal that exists, and reads the stream.
    FromMessage,
    /// It creates the goal first.
    FromGoal,
}

/// The runs to drive.
#[derive(Clone)]
struct Work {
    runs: usize,
    /// The goals of the runs; with `FromGoal`, the users for whom goals are created.
    owners: Arc<[String]>,
    journey: Journey,
}

impl Work {
    fn goals(goals: &[String]) -> Self {
        Self { runs: goals.len(), owners: goals.into(), journey: Journey::FromMessage }
    }

    fn of_users(users: Vec<String>, runs: usize) -> Self {
        Self { runs, owners: users.into(), journey: Journey::FromGoal }
    }

    /// The goal of a run.
    async fn goal(&self, connection: &mut Connection, nth: usize) -> Result<String> {
        match self.journey {
            Journey::FromMessage => Ok(self.owners[nth].clone()),
            Journey::FromGoal => connection.goal(&self.owners[nth / GOALS_OF_A_USER], "bench").await,
        }
    }
}

/// Drives the runs, `concurrency` at once.
async fn drive(setup: &Setup<'_>, work: &Work, concurrency: usize, label: &str) -> Result<Vec<Timing>> {
    let mut progress = Progress::new(label, work.runs as u64);
    let next = Arc::new(AtomicUsize::new(0));
    let texts = Arc::new((workload::message(), workload::answer()));
    let mut clients = JoinSet::new();
    for _ in 0..concurrency {
        let mut connection = setup.connect().await?;
        let (work, next, texts) = (work.clone(), Arc::clone(&next), Arc::clone(&texts));
        clients.spawn(async move {
            let mut timings = Vec::new();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= work.runs {
                    break;
                }
                let goal = work.goal(&mut connection, nth).await?;
                timings.push(workload::run(&mut connection, &goal, &texts.0, &texts.1).await?);
            }
            anyhow::Ok(timings)
        });
    }
    let mut timings = Vec::with_capacity(work.runs);
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                Some(ended) => timings.extend(ended??),
                None => return Ok(timings),
            },
            _ = tick.tick() => progress.reach(next.load(Ordering::Relaxed).min(work.runs) as u64),
        }
    }
}
