//! Benchmarks: one Houston process on a real Postgres (fsync on) and a real Redis, with a model that answers at once,
//! so that only Houston is measured.
//!
//! The load generator and the model run on the same machine as the service. So compare processor time per run
//! between machines and with other systems; latency and throughput depend on how many cores are left.
//!
//! Besides: `--throughput` measures 32 and 128 runs at once and with new goals, `--workers` does so with 1, 2 and 4 worker
//! processes beside an API process, `--cells 1,2,4` with so many cells, `--console` measures the pages of the console after
//! 100,000 runs, `--streams` clients that only cost, `--interfaces` what limits and webhooks cost a run, `--hints` the lanes of hints without
//! Postgres, `--replay` the replay of a recorded run without any server, `--bus` the readers of events, and `--plan` a plan
//! against the loop.

pub(crate) mod adapters;
pub(crate) mod bus;
pub(crate) mod cancel;
pub(crate) mod console;
pub(crate) mod conversation;
pub(crate) mod database;
mod flood;
mod held;
pub(crate) mod hints;
pub(crate) mod history;
mod idle;
mod installation;
pub(crate) mod interfaces;
mod machine;
pub(crate) mod plans;
pub(crate) mod replay;
pub(crate) mod report;
mod saturated;
pub(crate) mod scale;
pub(crate) mod spread;
mod statement;
pub(crate) mod streams;
pub(crate) mod throughput;
pub(crate) mod tokens;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use houston_testkit::servers::TestServers;

use houston_xtask::console::print_status;
use installation::{BenchInstallation, Replies};
use report::{Measurements, Report, Settings};
use saturated::Journey;

/// The size of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Runs of the idle part, one after the other.
    pub(crate) idle_runs: usize,
    /// Approximate duration of the saturated part.
    pub(crate) saturated: Duration,
    /// Concurrent runs in the saturated part.
    pub(crate) concurrency: usize,
    /// Numbers of runs held at once; one measurement each.
    pub(crate) held: &'static [usize],
    /// How long they are held.
    pub(crate) hold: Duration,
    /// Runs to cancel, with Redis and without.
    pub(crate) cancelled: usize,
    /// Waiting messages of one user while another user is measured.
    pub(crate) flood: usize,
    /// Messages of the other user.
    pub(crate) flood_runs: usize,
    /// Hints sent and handled as fast as possible.
    pub(crate) hints: usize,
    /// Hints sent one after the other into an idle lane.
    pub(crate) idle_hints: usize,
    /// Idle streams, and wrong keys.
    pub(crate) streams: (usize, usize),
    /// Tokens per answer in the token measurement.
    pub(crate) tokens: usize,
    /// Turns of the conversation that is run with four configurations.
    pub(crate) turns: usize,
    /// Age, in turns, of the agentable that is compared with a new one.
    pub(crate) long: usize,
}

impl Size {
    /// For published figures: about two minutes.
    pub(crate) const FULL: Self = Self {
        idle_runs: 500,
        saturated: Duration::from_secs(12),
        concurrency: 32,
        held: &[1000, 2000],
        hold: Duration::from_secs(5),
        cancelled: 80,
        flood: 100_000,
        flood_runs: 400,
        hints: 500_000,
        idle_hints: 1000,
        streams: (10_000, 50_000),
        tokens: 1000,
        turns: 500,
        long: 10_000,
    };
    /// To see that the measurements work: half a minute.
    pub(crate) const QUICK: Self = Self {
        idle_runs: 50,
        saturated: Duration::from_secs(3),
        concurrency: 32,
        held: &[200],
        hold: Duration::from_secs(1),
        cancelled: 10,
        flood: 10_000,
        flood_runs: 100,
        hints: 50_000,
        idle_hints: 100,
        streams: (500, 2_000),
        tokens: 100,
        turns: 100,
        long: 500,
    };
}

/// Runs all measurements.
pub(crate) async fn measure(program: &Path, servers: &TestServers, size: Size) -> Result<Report> {
    machine::allow_many_files()?;
    let installation = BenchInstallation::start(program, servers, Replies::Text).await?;
    let rest = installation.rest(size.hold).await?;
    print_status(&format!("at rest: {:.1} MB", report::megabytes(rest.rss)));
    let idle = idle::measure(&installation, size.idle_runs).await?;
    let saturated = saturated::measure(&installation, size, &rest, Journey::FromMessage).await?;
    installation.stop_and_check()?;

    let mut held = Vec::new();
    for streamed in [true, false] {
        // A new process, so that memory left over from earlier load is not counted.
        let installation = BenchInstallation::start(program, servers, Replies::Text).await?;
        let rest = installation.rest(Duration::from_secs(1)).await?;
        for runs in size.held {
            held.push(held::measure(&installation, *runs, size.hold, streamed, rest.rss).await?);
        }
        installation.stop_and_check()?;
    }

    let installation = BenchInstallation::start(program, servers, Replies::Tool).await?;
    let rest_with_tools = installation.rest(size.hold).await?;
    let with_tool = saturated::measure(&installation, size, &rest_with_tools, Journey::FromMessage).await?;
    installation.stop_and_check()?;
    let scale = scale::measure().await?;
    let hints = hints::measure(size).await?;

    let tokens = tokens::measure(program, servers, size.tokens).await?;

    // Late, since its runs do not complete.
    let cancel = cancel::measure(program, servers, size.cancelled).await?;

    // Last: its backlog is not waited for.
    let installation = BenchInstallation::start(program, servers, Replies::Text).await?;
    let flood = flood::measure(&installation, size).await?;

    let settings = Settings::of(size, servers)?;
    Ok(Report::of(
        settings,
        Measurements { rest, idle, saturated, held, with_tool, cancel, flood, scale, tokens, hints },
    ))
}
