//! [`Worker`]: the process that takes hints and drives runs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::id::Ids;
use houston_domain::mode::Mode;
use houston_domain::schedule::Schedules;
use houston_engine::{DriveOutcome, Engine};
use houston_queue::{
    DeltaBus, Hint, HintBackend, HintSender, Lane, LocalHints, Received, Redis, RedisHealth, run_worker,
};
use houston_store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{LeaseConfig, SweepConfig, WorkerConfig};
use crate::health::{Kinds, Monitor, MonitorConfig};
use crate::lease::{Current, Keeper, LeaseThread};
use crate::{archive, cron, erase, listen, reaper, schedule, sweep, titles};

/// Hints one round trip brings at most: idle workers share a burst.
const MAX_BATCH: usize = 64;

/// How long giving back the lease may take at the end; it runs out by itself.
const RESIGN_WITHIN: Duration = Duration::from_secs(2);

/// What a worker is built from.
pub struct Worker {
    /// What drives runs.
    pub engine: Arc<Engine>,
    /// Postgres.
    pub store: Store,
    /// Where Postgres is, for the connection of the lease.
    pub database_url: String,
    /// Where Redis is, if anywhere.
    pub redis: Option<Redis>,
    /// Where hints go.
    pub hints: HintSender,
    /// Where transcripts and cancellations are asked for.
    pub bus: DeltaBus,
    /// Ids and the clock.
    pub ids: Arc<Ids>,
    /// Host and process id, for operators.
    pub name: String,
    /// The lease.
    pub lease: LeaseConfig,
    /// The sweep.
    pub sweep: SweepConfig,
    /// Slots and drain.
    pub worker: WorkerConfig,
    /// The health monitor.
    pub monitor: MonitorConfig,
    /// Feeds and check-ins.
    pub schedules: Schedules,
}

/// Why a worker ended without having been stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lease thread could not be started.
    #[error(transparent)]
    Lease(#[from] LeaseThread),
    /// The queue's worker ended.
    #[error(transparent)]
    Queue(#[from] houston_queue::Error),
}

/// A running worker.
pub struct Running {
    ended: tokio::task::JoinHandle<Result<(), Error>>,
    health: RedisHealth,
    current: Current,
}

impl Running {
    /// Whether hints come from Redis; while not, Postgres is asked each second.
    #[must_use]
    pub fn redis(&self) -> RedisHealth {
        self.health.clone()
    }

    /// Waits until the worker has its lease and may claim.
    pub async fn registered(&self) {
        let _ = self.current.clone().wait_for(Option::is_some).await;
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When the worker ended without having been stopped: the process must exit.
    pub async fn ended(self) -> Result<(), Error> {
        match self.ended.await {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

impl Worker {
    /// Starts taking hints. `stop` drains: no new hints, steps finish or are handed over within the drain time.
    /// `kill` drops everything now.
    ///
    /// # Errors
    /// When the lease thread cannot be started.
    pub fn start(
        self,
        tracker: &TaskTracker,
        stop: CancellationToken,
        kill: CancellationToken,
    ) -> Result<Running, Error> {
        let done = CancellationToken::new();
        let settings = self.worker.hints(MAX_BATCH);
        let backend = HintBackend::start(self.redis.clone(), settings, tracker);
        let keeper = Keeper {
            url: self.database_url.clone(),
            name: self.name.clone(),
            ids: Arc::clone(&self.ids),
            config: self.lease,
            drain: stop.clone(),
            done: done.clone(),
            ring: ring(backend.local_hints(), self.hints.clone()),
        };
        let current = keeper.start()?;
        let health = backend.health();
        self.start_watchers(&backend, &current, tracker, &done);
        let ended = tracker.spawn(self.work(backend, current.clone(), stop, kill, done, tracker.clone()));
        Ok(Running { ended, health, current })
    }

    /// The tasks beside the consumer.
    fn start_watchers(
        &self,
        backend: &HintBackend,
        current: &Current,
        tracker: &TaskTracker,
        done: &CancellationToken,
    ) {
        let now = Arc::new(Notify::new());
        let sweeper = sweep::Sweeper {
            store: self.store.clone(),
            hints: self.hints.clone(),
            local: backend.local_hints(),
            redis: backend.health(),
            urgencies: self.engine.urgencies(),
            config: self.sweep,
            stop: done.clone(),
        };
        let ring = Arc::clone(&now);
        tracker.spawn(async move { sweeper.run(&ring).await });
        let listener = listen::Listener {
            store: self.store.clone(),
            engine: Arc::clone(&self.engine),
            local: backend.local_hints(),
            redis: backend.health(),
            stop: done.clone(),
        };
        tracker.spawn(listener.run());
        tracker.spawn(reaper::run(
            self.store.clone(),
            Arc::clone(&self.engine),
            current.clone(),
            reaper::Times::of(self.sweep, self.lease),
            now,
            done.clone(),
        ));
        tracker.spawn(erase::run(self.store.clone(), self.sweep, done.clone()));
        archive::start(&self.store, &self.engine, tracker, done);
        let agent_types = self.engine.agent_types();
        let scheduler = schedule::Scheduler {
            store: self.store.clone(),
            bus: self.bus.clone(),
            ids: Arc::clone(&self.ids),
            schedules: self.schedules.clone(),
            feed_kinds: schedule::kinds_with(agent_types, Mode::FeedGeneration),
            stop: done.clone(),
        };
        tracker.spawn(scheduler.run());
        tracker.spawn(control(self.bus.clone(), Arc::clone(&self.engine), done.clone()));
        let monitor = Monitor {
            store: self.store.clone(),
            redis: self.redis.clone(),
            hints: self.hints.clone(),
            bus: self.bus.clone(),
            clock: Arc::clone(self.ids.clock()),
            kinds: Kinds::of_engine(&self.engine),
            config: self.monitor,
        };
        tracker.spawn(titles::run(Arc::clone(&self.engine), done.clone()));
        tracker.spawn(cron::run(Arc::new(monitor), current.clone(), done.clone()));
    }

    /// Consumes hints until stopped and drained.
    async fn work(
        self,
        backend: HintBackend,
        current: Current,
        stop: CancellationToken,
        kill: CancellationToken,
        done: CancellationToken,
        tracker: TaskTracker,
    ) -> Result<(), Error> {
        let (engine, holder) = (Arc::clone(&self.engine), current.clone());
        let bell = Bell { local: backend.local_hints(), tracker: tracker.clone(), stop: stop.clone() };
        let handler = move |hint: Hint| {
            let (engine, holder, bell) = (Arc::clone(&engine), holder.clone(), bell.clone());
            async move { take(&engine, &holder, &bell, hint).await }.boxed()
        };
        let consuming = run_worker(&self.name, backend, handler, stop.clone());
        let drained = async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(self.worker.drain_s)).await;
        };
        let ended = tokio::select! {
            ended = consuming => ended.map_err(Error::from),
            () = drained => {
                tracing::warn!(runs = self.engine.live().len(), "drain time is over, runs go to others");
                Ok(())
            }
            () = kill.cancelled() => Ok(()),
        };
        // Runs that are still driven stop here; once the lease is back, others take them.
        if let Some(holder) = current.borrow().as_ref() {
            holder.lost.cancel();
        }
        done.cancel();
        let mut gone = current;
        let _ = tokio::time::timeout(RESIGN_WITHIN, gone.wait_for(Option::is_none)).await;
        ended
    }
}

/// Sends a hint to this process, which has a free slot; to the others when it takes none any more.
fn ring(local: LocalHints, hints: HintSender) -> Arc<dyn Fn(Lane, Hint) + Send + Sync> {
    Arc::new(move |lane, hint| {
        if local.try_send(lane, hint).is_err() {
            hints.send(lane, hint);
        }
    })
}

/// Sends a hint when a retry is due. The sweep would find it too, but later, and a person is watching the countdown.
#[derive(Clone)]
struct Bell {
    local: LocalHints,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Bell {
    fn ring_after(&self, wait: Duration, lane: Lane, hint: Hint) {
        // A moment late rather than early: the database's clock decides what is due.
        let wait = wait + Duration::from_millis(5);
        let (local, stop) = (self.local.clone(), self.stop.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {
                    let _ = local.try_send(lane, hint);
                }
            }
        });
    }
}

/// One hint: look at this agentable.
async fn take(engine: &Engine, current: &Current, bell: &Bell, hint: Hint) {
    let holder = current.borrow().clone();
    let Some(holder) = holder else { return };
    if houston_faults::fault!("C5").is_err() {
        return;
    }
    let driven = engine.drive(hint.agentable(), &holder).await;
    if houston_faults::fault!("C15").is_err() {
        return;
    }
    match driven {
        Ok(DriveOutcome::Retrying { after, lane }) => bell.ring_after(after, lane, hint),
        Ok(DriveOutcome::NotClaimed) => tracing::trace!(agentable = %hint.agentable(), "nothing to claim"),
        Ok(driven) => tracing::debug!(agentable = %hint.agentable(), ?driven, "drive ended"),
        Err(error) => tracing::warn!(agentable = %hint.agentable(), %error, "drive failed"),
    }
}

/// Answers what streams and other processes ask of the runs driven here.
async fn control(bus: DeltaBus, engine: Arc<Engine>, stop: CancellationToken) {
    let mut control = bus.subscribe_control();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            received = control.recv() => match received {
                Received::Item(item) => engine.live().on_control(&item),
                Received::Lagged => control = bus.subscribe_control(),
            },
        }
    }
}
