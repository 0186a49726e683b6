//! Recovery times: workers of a real installation are killed or stopped while runs are in flight, with the default
//! settings. For each run of such a worker, the time from just before the signal to the first fenced write of another
//! worker is measured by the database's clock.

mod installation;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_testkit::servers::TestServers;

use houston_xtask::console::Progress;
use installation::{HeldRuns, RecoveryInstallation};
use report::Times;

pub(crate) use report::Report;

/// How long to wait for another worker before the measurement fails: far beyond every target.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often Postgres is queried. Times come from Postgres, so this costs no precision.
const POLL: Duration = Duration::from_millis(250);

/// The size of the measurement: how many kills (SIGKILL) and stops (SIGTERM), with how many workers and runs in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) workers: usize,
    pub(crate) runs: usize,
}

/// The signal that ends a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
}

/// Measures recovery after kills, then hand-over after stops.
pub(crate) async fn measure(program: &Path, servers: &TestServers, plan: Plan) -> Result<Report> {
    let mut installation = RecoveryInstallation::start(program, servers, plan).await?;
    let kills = cycles(&mut installation, Signal::Kill, plan.kills, "killing workers").await?;
    let stops = cycles(&mut installation, Signal::Terminate, plan.stops, "stopping workers").await?;
    Ok(Report::of(plan, kills, stops))
}

/// Ends `count` workers, one after the other, and starts a new one each time.
async fn cycles(
    installation: &mut RecoveryInstallation<'_>,
    signal: Signal,
    count: usize,
    label: &str,
) -> Result<Times> {
    let mut progress = Progress::new(label, count as u64);
    let mut times = Times::default();
    for cycle in 0..count {
        let held = wait_until_in_flight(installation, cycle).await?;
        match signal {
            Signal::Kill => installation.kill(&held)?,
            Signal::Terminate => installation.terminate(&held)?,
        }
        times.add(&wait_until_recovered(installation, &held).await?);
        if signal == Signal::Terminate {
            times.exits.push(installation.wait_for_exit(&held)?);
        }
        installation.start_worker()?;
        installation.restart_runs().await?;
        progress.step();
    }
    Ok(times)
}

/// Waits until every run is in its model call, then chooses a worker that holds runs.
async fn wait_until_in_flight(installation: &RecoveryInstallation<'_>, cycle: usize) -> Result<HeldRuns> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(held) = installation.find_holder(cycle)? {
            return Ok(held);
        }
        ensure!(Instant::now() < end, "the runs were never all in flight:\n{}", installation.log());
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until other workers have claimed all runs in `held`; returns how long each claim took.
async fn wait_until_recovered(
    installation: &RecoveryInstallation<'_>,
    held: &HeldRuns,
) -> Result<Vec<Duration>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let times = installation.recovered(held)?;
        if times.len() == held.runs.len() {
            return Ok(times);
        }
        let (found, wanted) = (times.len(), held.runs.len());
        ensure!(Instant::now() < end, "{found} of {wanted} runs were claimed again:\n{}", installation.log());
        tokio::time::sleep(POLL).await;
    }
}
