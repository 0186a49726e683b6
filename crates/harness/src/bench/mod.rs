//! Measurements: one process of Houston on a real Postgres (fsync on) and a real Redis, with a model that answers
//! at once, so that what is measured is Houston.
//!
//! Everything runs on one machine, the load and the model beside the service: processor time per run is the
//! number to compare between machines and rivals, the others are what was left over.

mod bound;
pub(crate) mod cancel;
pub(crate) mod conversation;
pub(crate) mod database;
mod flood;
mod held;
pub(crate) mod history;
mod idle;
mod machine;
pub(crate) mod report;
mod saturated;
pub(crate) mod scale;
pub(crate) mod spread;
mod stage;
mod statement;
pub(crate) mod tokens;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use houston_testkit::servers::TestServers;

use houston_xtask::console::tell;
use report::{More, Report, Settings};
use stage::{Replies, Stage};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Runs one after the other.
    pub(crate) idle_runs: usize,
    /// How long the saturated part takes, about.
    pub(crate) saturated: Duration,
    /// Runs at once in that part.
    pub(crate) concurrency: usize,
    /// How many runs are held at once, one after the other.
    pub(crate) held: &'static [usize],
    /// How long they are held.
    pub(crate) hold: Duration,
    /// How many runs are cancelled, on each way a cancellation may take.
    pub(crate) cancelled: usize,
    /// Messages one user has waiting while another is measured.
    pub(crate) flood: usize,
    /// Messages of that other user.
    pub(crate) flood_runs: usize,
    /// Tokens of each answer, where what a token costs is measured.
    pub(crate) tokens: usize,
    /// Turns of the conversation that is told in four ways.
    pub(crate) turns: usize,
    /// Turns of one that is compared with a new one.
    pub(crate) long: usize,
}

impl Size {
    /// What the report of record is made with: about two minutes.
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
        turns: 500,
        long: 10_000,
    };
    /// Enough to see whether it works: half a minute.
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
        turns: 100,
        long: 500,
    };
}

/// Measures everything.
pub(crate) async fn measure(program: &Path, servers: &TestServers, size: Size) -> Result<Report> {
    machine::allow_many_files()?;
    let stage = Stage::set(program, servers, Replies::Text).await?;
    let rest = stage.rest(size.hold).await?;
    tell(&format!("at rest: {:.1} MB", report::megabytes(rest.rss)));
    let idle = idle::measure(&stage, size.idle_runs).await?;
    let saturated = saturated::measure(&stage, size, &rest).await?;
    let sample = database::sample(stage.servers)?;
    stage.strike()?;

    let bound = bound::measure(servers, size, &sample).await?;

    let mut held = Vec::new();
    for streamed in [true, false] {
        // A fresh process, so that memory which earlier load left behind is not counted.
        let stage = Stage::set(program, servers, Replies::Text).await?;
        let rest = stage.rest(Duration::from_secs(1)).await?;
        for runs in size.held {
            held.push(held::measure(&stage, *runs, size.hold, streamed, rest.rss).await?);
        }
        stage.strike()?;
    }

    let stage = Stage::set(program, servers, Replies::Tool).await?;
    let rest_with_tools = stage.rest(size.hold).await?;
    let with_tool = saturated::measure(&stage, size, &rest_with_tools).await?;
    stage.strike()?;
    let scale = scale::measure().await?;

    let tokens = tokens::measure(program, servers, size.tokens).await?;

    // Last, since its runs do not complete.
    let cancel = cancel::measure(program, servers, size.cancelled).await?;

    // The last: what it leaves behind is not waited for.
    let stage = Stage::set(program, servers, Replies::Text).await?;
    let flood = flood::measure(&stage, size).await?;

    let settings = Settings::of(size, servers)?;
    Ok(Report::of(
        settings,
        More { rest, idle, saturated, bound, held, with_tool, cancel, flood, scale, tokens },
    ))
}
