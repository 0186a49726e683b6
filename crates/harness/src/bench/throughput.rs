//! Streamed durable runs as fast as they go, 32 and 128 at once; with a new goal each, without and with what an installation
//! may switch on; with several workers or cells. And where the time of Postgres goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::FutureExt as _;
use houston_testkit::console::print_status;
use serde_json::{Value, json};

use super::Bench;
use super::load::{Meter, clients, messages};
use super::receiver::Receiver;
use super::report::{Report, Row};
use super::setup::{GOALS_OF_A_USER, Replies, Rest, Setup};
use super::workload::{self, Timing};

/// Runs that estimate the throughput, after as many warm-up runs.
const PROBE: usize = 600;
/// A limit that is counted, and never reached.
const NO_LIMIT: &str = "1000000000";

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    concurrency: usize,
    /// Worker processes beside an API process; `None`: one process is both.
    workers: Option<usize>,
    cells: usize,
    journey: Journey,
    /// With limits of requests and tokens that are not reached, and a webhook for all events of runs.
    everything: bool,
    aims: Option<Aims>,
}

/// What a client of the service does for each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journey {
    /// It posts a message to a goal that exists, and reads the stream.
    FromMessage,
    /// It creates the goal first.
    FromGoal,
    /// The same as the first, but the model's answer is the argument of a call of `send_message`.
    ByTool,
}

/// Runs a second, at least; ms of processor time a run, at most; bytes that a turn adds to tables and to the log.
#[derive(Debug, Clone, Copy)]
struct Aims {
    rate: f64,
    cpu_ms: f64,
    bytes: Option<[f64; 2]>,
}

const fn case(concurrency: usize, journey: Journey) -> Case {
    Case { concurrency, workers: None, cells: 1, journey, everything: false, aims: None }
}

impl Case {
    /// Begins its rows.
    fn title(&self) -> String {
        let cells = if self.cells > 1 { format!("{} cells ", self.cells) } else { String::new() };
        let workers = self.workers.map_or_else(String::new, |count| format!("{count} workers "));
        let what = match self.journey {
            Journey::FromMessage => format!("at {}", self.concurrency),
            Journey::FromGoal if self.everything => "new goal, everything on".to_owned(),
            Journey::FromGoal => "new goal".to_owned(),
            Journey::ByTool => "send message".to_owned(),
        };
        cells + &workers + &what
    }
}

/// One process.
pub(crate) const ALONE: [Case; 4] = [
    Case {
        aims: Some(Aims { rate: 2500.0, cpu_ms: 0.6, bytes: Some([2300.0, 3500.0]) }),
        ..case(32, Journey::FromMessage)
    },
    Case { aims: Some(Aims { rate: 3000.0, cpu_ms: 0.6, bytes: None }), ..case(128, Journey::FromMessage) },
    case(32, Journey::FromGoal),
    Case {
        everything: true,
        aims: Some(Aims { rate: 1800.0, cpu_ms: 0.8, bytes: None }),
        ..case(32, Journey::FromGoal)
    },
];

/// The model answers by a call of a tool.
pub(crate) const BY_TOOL: [Case; 1] = [case(32, Journey::ByTool)];

/// 1, 2 and 4 workers.
pub(crate) fn with_workers() -> Vec<Case> {
    both(&[1, 2, 4], |count| Case { workers: Some(count), ..case(0, Journey::FromMessage) })
}

/// One process with so many cells.
pub(crate) fn with_cells(cells: &[u8]) -> Vec<Case> {
    both(cells, |count| Case { cells: usize::from(count), ..case(0, Journey::FromMessage) })
}

/// 32 and 128 at once, with each of these counts.
fn both<T: Copy>(counts: &[T], of: impl Fn(T) -> Case) -> Vec<Case> {
    let cases = |count: &T| [32, 128].map(|concurrency| Case { concurrency, ..of(*count) });
    counts.iter().flat_map(cases).collect()
}

/// Measures each case on servers of its own.
pub(crate) async fn measure(bench: &Bench, cases: &[Case]) -> Result<Report> {
    let mut rows = Vec::new();
    for case in cases {
        print_status(&format!("throughput: {}", case.title()));
        let servers = (0..case.cells).map(|_| bench.servers()).collect::<Result<Vec<_>>>()?;
        let receiver = if case.everything { Some(Receiver::start(true).await?) } else { None };
        let replies = if case.journey == Journey::ByTool { Replies::Tool } else { Replies::Text };
        let mut houston = bench.houston();
        if let Some(workers) = case.workers {
            houston = houston.workers(workers);
        }
        if let Some(receiver) = &receiver {
            houston = houston.set("HOUSTON_RATES__REQUESTS__QUOTA", NO_LIMIT);
            houston = houston.set("HOUSTON_RATES__TOKENS__QUOTA", NO_LIMIT).set_all(receiver.settings());
        }
        let setup = Setup::start(houston, servers, replies).await?;
        if let Some(receiver) = &receiver {
            let body = json!({"url": receiver.url(), "topics": ["run.*"]}).to_string();
            setup.connect().await?.post("/v1/webhooks", &body).await?.json::<Value>()?;
        }
        let rest = setup.rest(bench.size(Duration::from_secs(5), Duration::from_secs(1))).await?;
        rows.extend(drive(&setup, case, bench.size(12.0, 2.0), &rest).await?);
        bench.print_statements(&setup)?;
        setup.stop_and_check()?;
    }
    Ok(Report { about: "streamed durable runs, 250 bytes in and out, 20 pieces".to_owned(), rows })
}

/// The load of one case: for about so many seconds.
async fn drive(setup: &Setup, case: &Case, seconds: f64, rest: &Rest) -> Result<Vec<Row>> {
    let goals = setup.goals(PROBE).await?;
    clients(setup.at(), case.concurrency, ("warming up", PROBE), messages(&goals)).await?;
    let began = Instant::now();
    clients(setup.at(), case.concurrency, ("warming up", PROBE), messages(&goals)).await?;
    let runs = (PROBE as f64 / began.elapsed().as_secs_f64() * seconds).ceil().max(1.0) as usize;
    // The goals of the runs, or the users for whom goals are created.
    let owners = match case.journey {
        Journey::FromGoal => {
            Arc::new(setup.connect().await?.users("bench", runs.div_ceil(GOALS_OF_A_USER)).await?)
        }
        Journey::FromMessage | Journey::ByTool => setup.goals(runs).await?,
    };
    let makes_goals = case.journey == Journey::FromGoal;
    let meter = Meter::begin(setup)?;
    let label = format!("throughput: {} at once", case.concurrency);
    let timings = clients(setup.at(), case.concurrency, (&label, runs), move |connection, nth| {
        let owners = Arc::clone(&owners);
        async move {
            if makes_goals {
                let goal = connection.goal(&owners[nth / GOALS_OF_A_USER], "bench").await?;
                return workload::run(connection, &goal).await;
            }
            workload::run(connection, &owners[nth]).await
        }
        .boxed()
    });
    let timings = timings.await?;
    let spent = meter.end(setup)?;

    let per_run = |amount: f64| amount / runs as f64;
    let [mut rate, mut cpu, parts] = spent.rows("run", runs);
    rate = rate.titled(&case.title());
    let bytes = [per_run(spent.grown.stored as f64), per_run(spent.grown.wal as f64)];
    let [mut stored, mut wal] = [
        Row::of("  bytes in tables a run", bytes[0]),
        Row::of("  bytes of the log of Postgres a run", bytes[1]),
    ];
    if let Some(aims) = case.aims {
        (rate, cpu) = (rate.at_least(aims.rate), cpu.at_most(&[aims.cpu_ms]));
        if let Some([most_stored, most_wal]) = aims.bytes {
            (stored, wal) = (stored.at_most(&[most_stored]), wal.at_most(&[most_wal]));
        }
    }
    let mut rows = vec![rate, cpu, parts];
    rows.extend(Timing::rows(&timings));
    let commits = spent.grown.commits as f64 - rest.commits_per_second * spent.seconds;
    let pieces = timings.iter().map(|timing| timing.pieces).sum::<usize>();
    rows.extend([
        stored,
        wal,
        Row::of("  commits a run, without those at rest", per_run(commits)),
        Row::of("  pieces of its text that reach the client", per_run(pieces as f64)),
    ]);
    Ok(rows)
}
