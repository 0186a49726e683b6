//! Benchmarks: one Houston process on a real Postgres (fsync on) and a real Redis, with a model that answers at once,
//! so that only Houston is measured.
//!
//! The load generator and the model run on the same machine as the service. So compare processor time per run
//! between machines and with other systems; latency and throughput depend on how many cores are left.
//!
//! Besides: `--idle` measures the service at rest and one run after the other, `--throughput` 32 and 128 runs at once and
//! with new goals, `--workers` does so with 1, 2 and 4 worker processes beside an API process, `--cells 1,2,4` with so many
//! cells, `--replay` the replay of a recorded run without any server, and `--plan` a plan against the loop.
//!
//! # Deliberately absent
//!
//! - The cost of single statements among many rows: `crates/store/tests/scale` bounds what each touches, whatever the machine.
//! - Redis alone: `cargo bench -p houston-queue`.

pub(crate) mod cancel;
pub(crate) mod database;
mod flood;
mod held;
pub(crate) mod idle;
mod machine;
pub(crate) mod plans;
pub(crate) mod replay;
pub(crate) mod report;
mod saturated;
pub(crate) mod setup;
pub(crate) mod spread;
pub(crate) mod throughput;
pub(crate) mod tokens;
pub(crate) mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use houston_testkit::houston::Houston;
use houston_testkit::servers::TestServers;

use report::{Parts, Report, Settings};
use saturated::Journey;
use setup::{Replies, Setup};

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
    /// Tokens per answer in the token measurement.
    pub(crate) tokens: usize,
    /// Rounds of the work that is done with and without a plan.
    pub(crate) plans: usize,
    /// Processes that replay a recorded run.
    pub(crate) replays: usize,
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
        tokens: 1000,
        plans: 10,
        replays: 50,
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
        tokens: 100,
        plans: 2,
        replays: 5,
    };
}

/// Runs all measurements.
pub(crate) async fn measure(program: &Path, servers: &TestServers, size: Size) -> Result<Report> {
    machine::allow_many_files()?;
    let start = |replies| Setup::start(Houston::builder(program), servers, replies);
    let setup = start(Replies::Text).await?;
    let rest = setup.rest(size.hold).await?;
    let idle = idle::measure(&setup, size.idle_runs).await?;
    let saturated = saturated::measure(&setup, size, &rest, Journey::FromMessage).await?;
    setup.stop_and_check()?;

    let mut held = Vec::new();
    for streamed in [true, false] {
        // A new process, so that memory left over from earlier load is not counted.
        let setup = start(Replies::Text).await?;
        let rest = setup.rest(Duration::from_secs(1)).await?;
        for runs in size.held {
            held.push(held::measure(&setup, *runs, size.hold, streamed, rest.rss_mb).await?);
        }
        setup.stop_and_check()?;
    }

    let setup = start(Replies::Tool).await?;
    let rest_with_tools = setup.rest(size.hold).await?;
    let saturated_with_send_message =
        saturated::measure(&setup, size, &rest_with_tools, Journey::FromMessage).await?;
    setup.stop_and_check()?;

    let tokens = tokens::measure(program, servers, size.tokens).await?;

    // Late, since its runs do not complete.
    let cancel = cancel::measure(program, servers, size.cancelled).await?;

    // Last: its backlog is not waited for.
    let setup = start(Replies::Text).await?;
    let flood = flood::measure(&setup, size).await?;

    let more = Parts { rest, idle, saturated, held, saturated_with_send_message, cancel, flood, tokens };
    Ok(Report::of(Settings::of(size, servers)?, more))
}
