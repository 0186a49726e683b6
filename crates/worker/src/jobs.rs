//! Everything that a worker does again and again, in one list: [`JOBS`]. The [`runner`] waits, stops and reports for all of
//! them. A job takes no input, finds its work in Postgres, and may run on any number of workers at once and be cut off
//! anywhere.

mod runner;
mod sweep;
mod triggers;
mod webhook_events;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::event::Live;
use houston_domain::id::UserId;
use houston_domain::mode::Mode;
use houston_queue::{HintHealth, LocalHints};
use houston_store::attachment::Dropped;
use houston_store::check_in::CheckInOutcome;
use houston_store::erasure::sweep::Swept;
use houston_store::feed::{FeedIds, FeedOutcome};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::runner::{Again, Job, Result, When, Who};
use crate::health::Monitor;
use crate::lease::Current;
use crate::worker::Worker;

/// The jobs. The reaper is a task of its own, because a process that drives one run alone has one, too.
const JOBS: &[Job] = &[
    Job {
        name: "sweep",
        who: Who::Each,
        when: When::EveryOrWoken(sweep::period, |jobs| &jobs.wakes.sweep),
        run: |jobs, continues| Box::pin(sweep::run(jobs, continues)),
    },
    Job {
        name: "look for triggers",
        who: Who::Each,
        when: When::EveryOrWoken(|jobs| Some(jobs.worker.triggers.poll()), |jobs| &jobs.wakes.triggers),
        run: |jobs, _| Box::pin(triggers::run(jobs)),
    },
    Job {
        name: "reading of events for webhooks",
        who: Who::Each,
        when: When::EveryOrWoken(
            |jobs| Some(jobs.worker.webhooks.config.poll()),
            |jobs| &jobs.wakes.webhooks,
        ),
        run: |jobs, _| Box::pin(webhook_events::run(jobs)),
    },
    Job {
        name: "deletion of old deliveries",
        who: Who::Each,
        when: When::Every(|jobs| Some(jobs.worker.webhooks.config.poll() * FORGET_EVERY)),
        run: |jobs, _| Box::pin(forget_deliveries(jobs)),
    },
    Job {
        name: "search for due feeds",
        who: Who::Each,
        when: When::Every(|jobs| {
            let feed = &jobs.worker.schedules.feed;
            (!feed.times.is_empty()).then(|| millis(feed.poll.every_ms))
        }),
        run: |jobs, _| Box::pin(begin_feeds(jobs)),
    },
    Job {
        name: "search for due check-ins",
        who: Who::Each,
        when: When::Every(|jobs| Some(millis(jobs.worker.schedules.check_in.poll.every_ms))),
        run: |jobs, _| Box::pin(begin_check_ins(jobs)),
    },
    Job {
        name: "session_archive",
        who: Who::One,
        when: When::Every(archive_period),
        run: |jobs, _| Box::pin(close_sessions(jobs)),
    },
    Job {
        name: "search for sessions without a summary",
        who: Who::Each,
        when: When::Every(archive_period),
        run: |jobs, _| Box::pin(write_summaries(jobs)),
    },
    Job {
        name: "search for missing titles",
        who: Who::Each,
        when: When::Every(|jobs| Some(Duration::from_secs(jobs.worker.engine.titles.config.sweep_s.max(1)))),
        run: |jobs, _| Box::pin(write_titles(jobs)),
    },
    Job {
        name: "search for erasures",
        who: Who::Each,
        when: When::Every(|jobs| Some(millis(jobs.worker.sweep.erase_every_ms))),
        run: |jobs, _| Box::pin(erase(jobs)),
    },
    Job {
        name: "deletion of objects",
        who: Who::Each,
        when: When::Every(|jobs| Some(millis(jobs.worker.sweep.erase_every_ms))),
        run: |jobs, _| Box::pin(drop_objects(jobs)),
    },
    Job {
        name: "tidying of the folder of workspaces",
        who: Who::Each,
        when: When::Every(|_| Some(TIDY_EVERY)),
        run: |jobs, _| Box::pin(tidy_folders(jobs)),
    },
    Job {
        name: "health_monitor",
        who: Who::One,
        when: When::RoundTimes(|jobs| &jobs.monitor.config.tick),
        run: |jobs, _| Box::pin(check_health(jobs)),
    },
];

/// Pause after a batch of rows was erased, so that other work of Postgres comes between.
const BETWEEN_BATCHES: Duration = Duration::from_millis(10);
/// Pause after a full batch of what is due.
const AFTER_FULL_BATCH: Duration = Duration::from_millis(100);
/// How many objects of the object store are deleted at once, one after the other.
const OBJECTS: i64 = 100;
/// How often the folder of workspaces is tidied. What is left there is nothing that anybody waits for: files that a crash has
/// kept from being written are read from their rows.
const TIDY_EVERY: Duration = Duration::from_secs(300);
/// Reads of new events between two looks for old deliveries.
const FORGET_EVERY: u32 = 600;
/// Old deliveries that one statement deletes.
const FORGET: i64 = 5_000;

/// What the jobs of a worker work with.
pub(crate) struct Jobs {
    pub(crate) worker: Arc<Worker>,
    /// Hints to this process.
    pub(crate) local: LocalHints,
    /// Whether hints go through Redis.
    pub(crate) redis: HintHealth,
    pub(crate) current: Current,
    pub(crate) monitor: Monitor,
    pub(crate) wakes: Wakes,
    /// Where the next page of the sweep begins, if there is one.
    pub(crate) swept: Mutex<Option<UserId>>,
    /// Cancelled when the worker begins to drain.
    pub(crate) draining: CancellationToken,
    /// Cancelled when it has drained: jobs begin no more work, and what takes long is left to other workers.
    pub(crate) stop: CancellationToken,
}

/// What makes jobs run before their time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wakes {
    /// A worker died.
    pub(crate) sweep: Arc<Notify>,
    /// The worker that this one watches seems to be dead.
    pub(crate) reaper: Arc<Notify>,
    /// A trigger was switched on.
    pub(crate) triggers: Arc<Notify>,
    /// A webhook was switched on or is to be replayed.
    pub(crate) webhooks: Arc<Notify>,
    /// Deliveries were made: they are sent now.
    pub(crate) deliveries: Arc<Notify>,
}

impl Jobs {
    /// Starts all jobs, each as a task of its own.
    pub(crate) fn start(self, tracker: &TaskTracker) {
        let jobs = Arc::new(self);
        for job in JOBS {
            tracker.spawn(runner::keep(Arc::clone(&jobs), job));
        }
    }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Deliveries that were settled long ago.
async fn forget_deliveries(jobs: &Jobs) -> Result {
    let days = i64::from(jobs.worker.webhooks.config.keep_days);
    let before = jobs.worker.ids.clock().now() - TimeDelta::days(days);
    jobs.worker.background.forget_deliveries(before, FORGET).await?;
    Ok(Again::Later)
}

/// Starts runs that write feeds. The transaction that starts one also sets the next time, so each starts once; one that was
/// missed while no worker was alive starts once, too.
async fn begin_feeds(jobs: &Jobs) -> Result {
    let Worker { background: store, engine, ids, bus, schedules, .. } = &*jobs.worker;
    let config = &schedules.feed;
    let due = store.due_feeds(config.poll.batch).await?;
    let writes = engine.setups().map(|setup| &setup.agent_type);
    let writes = writes.filter(|agent_type| agent_type.modes.contains(&Mode::FeedGeneration));
    let kinds: Vec<String> = writes.map(|agent_type| agent_type.kind.clone()).collect();
    for user in &due {
        if jobs.stop.is_cancelled() {
            break;
        }
        let feed_ids = FeedIds { message: ids.beside(user.1), run: ids.beside(user.1) };
        let outcome = store.begin_feed(*user, &kinds, config, feed_ids).await?;
        tracing::debug!(user = %user.1, ?outcome, "a feed was due");
        if let FeedOutcome::Started { agentable, .. } = outcome {
            // Wakes open streams. Workers learn of the run by `NOTIFY`.
            bus.publish(agentable, Live::Nudge);
        }
    }
    Ok(Again::after_batch(due.len(), config.poll.batch, AFTER_FULL_BATCH))
}

/// Starts runs at the times that agents have chosen; each starts once, as with feeds.
async fn begin_check_ins(jobs: &Jobs) -> Result {
    let Worker { background: store, ids, bus, schedules, .. } = &*jobs.worker;
    let config = &schedules.check_in;
    let due = store.due_check_ins(config.poll.batch).await?;
    for id in &due {
        if jobs.stop.is_cancelled() {
            break;
        }
        let outcome = store.begin_check_in(*id, config, ids.beside(*id), ids.beside(*id)).await?;
        tracing::debug!(check_in = %id, ?outcome, "a check-in was due");
        if let CheckInOutcome::Posted(agentable) = outcome {
            bus.publish(agentable, Live::Nudge);
        }
    }
    Ok(Again::after_batch(due.len(), config.poll.batch, AFTER_FULL_BATCH))
}

/// `None` if no kind has `archives = true`.
fn archive_period(jobs: &Jobs) -> Option<Duration> {
    let archiving = &jobs.worker.background.archiving;
    (!archiving.kinds.is_empty()).then(|| millis(archiving.settings.every_ms))
}

/// Sessions in which nothing has happened for a while.
async fn close_sessions(jobs: &Jobs) -> Result {
    match jobs.worker.engine.sessions.close_quiet().await? {
        0 => {}
        closed => tracing::debug!(closed, "closed sessions"),
    }
    Ok(Again::Later)
}

/// Summaries of closed sessions, without a pause while more are waiting.
async fn write_summaries(jobs: &Jobs) -> Result {
    let at_once = jobs.worker.background.archiving.settings.summaries_at_once;
    let taken = jobs.worker.engine.sessions.write_summaries(&jobs.stop).await?;
    Ok(Again::after_batch(taken, at_once.into(), Duration::ZERO))
}

/// Titles that were requested of workers that died; see [`crate::titles`].
async fn write_titles(jobs: &Jobs) -> Result {
    jobs.worker.engine.titles.write(None, &jobs.stop).await?;
    Ok(Again::Later)
}

/// Deletes data that was requested to be erased, one batch. That of a worker that dies is repeated by another.
async fn erase(jobs: &Jobs) -> Result {
    match jobs.worker.background.erase_some(jobs.worker.sweep.erase_rows).await? {
        Swept::Nothing | Swept::Waits => return Ok(Again::Later),
        Swept::More => {}
        Swept::Done(erasure) => tracing::info!(%erasure, "erasure completed"),
    }
    Ok(Again::In(BETWEEN_BATCHES))
}

/// Objects of the object store that no row refers to any more.
async fn drop_objects(jobs: &Jobs) -> Result {
    let Dropped { deleted, .. } = jobs.worker.background.drop_objects(OBJECTS).await?;
    if deleted > 0 {
        tracing::info!(deleted, "deleted objects of the object store");
    }
    Ok(Again::after_batch(deleted, OBJECTS, BETWEEN_BATCHES))
}

/// Where workspaces are folders: what was left to be done there.
async fn tidy_folders(jobs: &Jobs) -> Result {
    match jobs.worker.background.tidy_folders().await? {
        0 => {}
        removed => tracing::info!(removed, "removed folders of deleted agentables"),
    }
    Ok(Again::Later)
}

async fn check_health(jobs: &Jobs) -> Result {
    if let Some(checks) = jobs.stop.run_until_cancelled(jobs.monitor.run_checks()).await {
        tracing::debug!(checks = checks?.len(), "the health monitor ran");
    }
    Ok(Again::Later)
}
