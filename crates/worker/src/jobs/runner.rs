//! Runs jobs: waits for their time, lets one worker of all run what only one is to run, says once that a job fails and once
//! that it works again, and stops. There is no leader: the worker that claims a tick in Postgres runs the job.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::setting::WrongSetting;
use houston_store::health::Tick;
use rand::RngExt as _;
use tokio::sync::Notify;
use tokio_cron_scheduler::{Job as ScheduledJob, JobScheduler, JobSchedulerError};

use super::Jobs;
use crate::health::config::TickConfig;

/// The length of each of a scheduler's queues, which are allocated at once. Each has one job.
const QUEUE: usize = 16;

/// When a job runs again, or why it failed.
pub(super) type Result<T = Again> = houston_store::Result<T>;

/// Something that is done again and again.
pub(super) struct Job {
    /// What logs call it: "the … failed". Of a job of [`Who::One`] also its name in `houston.cron_ticks`.
    pub(super) name: &'static str,
    pub(super) who: Who,
    pub(super) when: When,
    /// Does some of the work. `true`: it continues what it has asked to continue with [`Again::In`], and was not woken since.
    pub(super) run: for<'j> fn(&'j Jobs, bool) -> BoxFuture<'j, Result>,
}

/// Which workers run a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Each worker.
    Each,
    /// For each period the one that claims its tick.
    One,
}

/// Its period. `None`: this installation does not need it, so it is never run.
type Period = fn(&Jobs) -> Option<Duration>;

/// When a job runs. Each also runs when the worker starts.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// After its period or up to a fifth earlier, so that workers do not run it at the same time.
    Every(Period),
    /// As [`Self::Every`], and at once when it is notified.
    EveryOrWoken(Period, fn(&Jobs) -> &Arc<Notify>),
    /// At multiples of a period in UTC, by this machine's clock. The database's clock decides which tick that is.
    RoundTimes(fn(&Jobs) -> &TickConfig),
}

impl When {
    fn period(self, jobs: &Jobs) -> Option<Duration> {
        match self {
            Self::Every(period) | Self::EveryOrWoken(period, _) => period(jobs),
            Self::RoundTimes(tick) => Some(tick(jobs).every()),
        }
    }
}

/// When a job runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// When it is its time.
    Later,
    /// After this time, because there is more to do, or nothing for longer than its period.
    In(Duration),
}

impl Again {
    /// After `pause` if the batch was full.
    pub(super) fn after_batch(found: usize, batch: i64, pause: Duration) -> Self {
        if i64::try_from(found).is_ok_and(|found| found >= batch) { Self::In(pause) } else { Self::Later }
    }
}

/// Runs the job until the worker has drained.
pub(super) async fn keep(jobs: Arc<Jobs>, job: &'static Job) {
    if job.when.period(&jobs).is_none() {
        return;
    }
    if job.who == Who::One {
        // Before it is registered, there may be no worker alive.
        let mut current = jobs.current.clone();
        let registered = current.wait_for(Option::is_some);
        if jobs.stop.run_until_cancelled(registered).await.is_none() {
            return;
        }
    }
    let (wake, scheduler) = match job.when {
        When::Every(_) => (Arc::default(), None),
        When::EveryOrWoken(_, wake) => (Arc::clone(wake(&jobs)), None),
        When::RoundTimes(tick) => {
            let wake = Arc::default();
            match schedule(tick(&jobs), Arc::clone(&wake)).await {
                Ok(scheduler) => (wake, Some(scheduler)),
                Err(error) => return tracing::error!(%error, "the {} cannot be scheduled", job.name),
            }
        }
    };
    let mut turns = Turns { jobs: &jobs, job, tick: Tick::Latest, continues: false, failing: None };
    loop {
        let pause = turns.take_one().await;
        tokio::select! {
            biased;
            () = jobs.stop.cancelled() => break,
            () = wake.notified() => turns.continues = false,
            () = tokio::time::sleep(pause) => {}
        }
    }
    if let Some(mut scheduler) = scheduler {
        let _ = scheduler.shutdown().await;
    }
}

/// The turns of one job.
struct Turns<'j> {
    jobs: &'j Jobs,
    job: &'static Job,
    /// Which tick the next turn claims.
    tick: Tick,
    continues: bool,
    /// It has failed since it last worked, for the first time because Postgres did not answer (`true`) or for another reason.
    failing: Option<bool>,
}

impl Turns<'_> {
    /// Returns the pause before the next turn.
    async fn take_one(&mut self) -> Duration {
        let name = self.job.name;
        let again = match self.run().await {
            Ok(again) => {
                match self.failing.take() {
                    Some(true) => tracing::info!("postgres answers again; the {name} continues"),
                    Some(false) => tracing::info!("the {name} works again"),
                    None => {}
                }
                again
            }
            Err(error) if self.failing.is_some() => {
                tracing::debug!(%error, "the {name} still fails");
                Again::Later
            }
            Err(error) => {
                self.failing = Some(error.is_transient());
                tracing::warn!(%error, "the {name} failed; trying again");
                Again::Later
            }
        };
        self.continues = again != Again::Later;
        match (again, self.job.when) {
            (Again::In(pause), _) => pause,
            (Again::Later, When::RoundTimes(_)) => {
                self.tick = Tick::Nearest;
                Duration::MAX
            }
            (Again::Later, when) => {
                let early = rand::rng().random_range(0.0..=0.2);
                when.period(self.jobs).map_or(Duration::MAX, |period| period.mul_f64(1.0 - early))
            }
        }
    }

    async fn run(&self) -> Result {
        if let (Who::One, false, Some(every)) =
            (self.job.who, self.continues, self.job.when.period(self.jobs))
            && !self.jobs.worker.background.claim_tick(self.job.name, every, self.tick).await?
        {
            return Ok(Again::Later);
        }
        (self.job.run)(self.jobs, self.continues).await
    }
}

/// Why a job cannot be scheduled.
#[derive(Debug, thiserror::Error)]
enum NotScheduled {
    #[error(transparent)]
    Period(#[from] WrongSetting),
    #[error(transparent)]
    Scheduler(#[from] JobSchedulerError),
}

/// Notifies `due` at each multiple of the period.
async fn schedule(tick: &TickConfig, due: Arc<Notify>) -> std::result::Result<JobScheduler, NotScheduled> {
    let times = tick.schedule()?;
    let scheduler = JobScheduler::new_with_channel_size(QUEUE).await?;
    let notify = move |_, _| -> BoxFuture<'static, ()> {
        let due = Arc::clone(&due);
        Box::pin(async move { due.notify_one() })
    };
    scheduler.add(ScheduledJob::new_async_tz(times, chrono::Utc, notify)?).await?;
    scheduler.start().await?;
    Ok(scheduler)
}
