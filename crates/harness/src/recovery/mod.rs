//! Recovery: workers of a real installation die, or are asked to go, with runs in flight all the time, under the
//! settings Houston comes with. Measured is, by the database's clock, the time from just before the signal to the
//! first fenced write of another worker for each of the runs the first one held.

mod crew;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_testkit::servers::TestServers;

use crew::{Crew, Held};
use houston_xtask::console::Progress;
use report::Times;

pub(crate) use report::Report;

/// How long a run may take to be taken up again before the measurement is given up: far past every aim.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often Postgres is asked. It says when things happened, so this costs no precision.
const LOOK: Duration = Duration::from_millis(250);

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) workers: usize,
    pub(crate) runs: usize,
}

/// How a worker goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    Killed,
    Asked,
}

/// Measures everything.
pub(crate) async fn measure(program: &Path, servers: &TestServers, plan: Plan) -> Result<Report> {
    let mut crew = Crew::assemble(program, servers, plan).await?;
    let kills = cycles(&mut crew, Goes::Killed, plan.kills, "killing workers").await?;
    let stops = cycles(&mut crew, Goes::Asked, plan.stops, "stopping workers").await?;
    Ok(Report::of(plan, kills, stops))
}

/// Lets one worker after the other go, and takes on a new one each time.
async fn cycles(crew: &mut Crew<'_>, goes: Goes, count: usize, label: &str) -> Result<Times> {
    let mut progress = Progress::new(label, count as u64);
    let mut times = Times::default();
    for cycle in 0..count {
        let held = until_held(crew, cycle).await?;
        match goes {
            Goes::Killed => crew.kill(&held)?,
            Goes::Asked => crew.ask_to_go(&held)?,
        }
        times.add(&until_recovered(crew, &held).await?);
        if goes == Goes::Asked {
            times.exits.push(crew.wait_for_exit(&held)?);
        }
        crew.take_on()?;
        crew.begin_anew().await?;
        progress.step();
    }
    Ok(times)
}

/// Waits until every run is in the middle of its model call, and chooses a worker that holds some.
async fn until_held(crew: &Crew<'_>, cycle: usize) -> Result<Held> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(held) = crew.held(cycle)? {
            return Ok(held);
        }
        ensure!(Instant::now() < end, "the runs were never all in flight:\n{}", crew.log());
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until all its runs go on elsewhere; returns after how long each did.
async fn until_recovered(crew: &Crew<'_>, held: &Held) -> Result<Vec<Duration>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let times = crew.recovered(held)?;
        if times.len() == held.runs.len() {
            return Ok(times);
        }
        let (found, wanted) = (times.len(), held.runs.len());
        ensure!(Instant::now() < end, "{found} of {wanted} runs were taken up again:\n{}", crew.log());
        tokio::time::sleep(LOOK).await;
    }
}
