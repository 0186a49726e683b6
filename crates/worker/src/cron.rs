//! Periodic jobs, scheduled by `tokio-cron-scheduler` in every worker. There is no leader: the worker that claims a tick in
//! Postgres runs the job. Jobs are idempotent, so a job that runs twice or is interrupted does no harm.

use std::sync::Arc;

use houston_store::health::Tick;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use tokio_util::sync::CancellationToken;

use crate::health::Monitor;
use crate::health::config::NoSchedule;
use crate::lease::Current;

/// The length of each of the scheduler's queues, which are allocated at once. There is one job.
const QUEUE: usize = 16;

/// The job's name in Postgres.
const HEALTH_MONITOR: &str = "health_monitor";

/// Why the job cannot be scheduled.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("every_s {0}")]
    Schedule(#[from] NoSchedule),
    #[error(transparent)]
    Scheduler(#[from] JobSchedulerError),
}

/// Runs the health monitor on its schedule until stopped; immediately when a tick was missed while no worker ran.
pub(crate) async fn run(monitor: Arc<Monitor>, mut current: Current, stop: CancellationToken) {
    let missed = async {
        // After registering: before that, there may be no worker alive.
        let _ = current.wait_for(Option::is_some).await;
        tick(&monitor, Tick::Latest).await;
    };
    tokio::select! {
        () = missed => {}
        () = stop.cancelled() => return,
    }
    match schedule(monitor, &stop).await {
        Ok(mut scheduler) => {
            stop.cancelled().await;
            let _ = scheduler.shutdown().await;
        }
        Err(error) => {
            tracing::error!(%error, "the health monitor cannot be scheduled; run `houston monitor` from a cron job instead")
        }
    }
}

/// Schedules the job at times in UTC, by this machine's clock. The database's clock decides which tick that is.
async fn schedule(monitor: Arc<Monitor>, stop: &CancellationToken) -> Result<JobScheduler, Error> {
    let times = monitor.config.tick.schedule()?;
    let scheduler = JobScheduler::new_with_channel_size(QUEUE).await?;
    let stop = stop.clone();
    let job = Job::new_async_tz(times, chrono::Utc, move |_, _| {
        let (monitor, stop) = (Arc::clone(&monitor), stop.clone());
        Box::pin(async move {
            tokio::select! {
                () = tick(&monitor, Tick::Nearest) => {}
                () = stop.cancelled() => {}
            }
        })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}

/// Runs all checks if this worker claims the tick.
async fn tick(monitor: &Monitor, which: Tick) {
    match monitor.store.claim_tick(HEALTH_MONITOR, monitor.config.tick.every(), which).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => return tracing::warn!(%error, "could not claim a tick of the health monitor"),
    }
    match monitor.run_checks().await {
        Ok(checks) => tracing::debug!(checks = checks.len(), "the health monitor ran"),
        Err(error) => tracing::warn!(%error, "the health monitor could not store its findings"),
    }
}
