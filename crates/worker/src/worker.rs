//! [`Worker`]: takes hints, drives runs, and starts the periodic jobs beside them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::id::{Ids, ProcessId};
use houston_domain::mode::Mode;
use houston_domain::schedule::Schedules;
use houston_engine::Engine;
use houston_metrics::Metrics;
use houston_queue::{
    DeltaBus, Hint, HintBackend, HintHealth, HintSender, Intake, Lane, LocalHints, Redis, RedisHealth, Slots,
    run_worker,
};
use houston_store::RunStore;
use houston_store::lease::WorkerDescription;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{LeaseConfig, SweepConfig, WorkerConfig};
use crate::drive::{DirectStarts, RetryHints, handle_hint};
use crate::health::{Kinds, Monitor, MonitorConfig};
use crate::lease::{Current, LeaseKeeper, LeaseThread, PauseLanes, RESIGN_TIMEOUT};
use crate::trial::{Trials, TryAlone};
use crate::triggers::{Triggers, TriggersConfig};
use crate::webhooks::{RunningWebhooks, Webhooks};
use crate::{archive, cron, erase, listen, reaper, schedule, sweep, titles};

/// What [`Worker::start`] needs.
pub struct Worker {
    /// Drives runs.
    pub engine: Arc<Engine>,
    /// The handle to Postgres.
    pub store: RunStore,
    /// The same for what nobody waits for, with connections of its own.
    pub background: RunStore,
    /// Connection URL of Postgres, for the connection of the lease.
    pub database_url: String,
    /// Redis, if there is one.
    pub redis: Option<Redis>,
    /// Sends hints to all workers.
    pub hints: HintSender,
    /// Receives requests for transcripts and cancellations.
    pub bus: DeltaBus,
    /// Generates ids, and has the clock.
    pub ids: Arc<Ids>,
    /// Counts leases and deliveries to webhooks.
    pub metrics: Arc<Metrics>,
    /// The process. Its workers, one for each cell, die together.
    pub process: ProcessId,
    /// How it introduces itself to operators. Its slots are those of [`Self::slots`].
    pub description: WorkerDescription,
    /// `[lease]` of `jobs/orchestrator.toml`.
    pub lease: LeaseConfig,
    /// `[sweep]` of `jobs/orchestrator.toml`.
    pub sweep: SweepConfig,
    /// `[worker]` of `jobs/orchestrator.toml`: the drain time.
    pub worker: WorkerConfig,
    /// Its slots. The workers of one process, one for each cell, share them.
    pub slots: Slots,
    /// `jobs/health_monitor.toml`.
    pub monitor: MonitorConfig,
    /// `jobs/feed_generation.toml` and `jobs/agent_check_in.toml`.
    pub schedules: Schedules,
    /// `jobs/webhooks.toml`.
    pub webhooks: Webhooks,
    /// `jobs/triggers.toml`.
    pub triggers: TriggersConfig,
    /// Tries runs in processes of their own, if the engine leaves them to it.
    pub alone: Option<TryAlone>,
}

/// Why a worker ended without being asked to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lease thread could not be started.
    #[error(transparent)]
    Lease(#[from] LeaseThread),
    /// The consumer of hints ended.
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
    /// Whether hints come from Redis. While they do not, Postgres is polled every second.
    #[must_use]
    pub fn redis(&self) -> RedisHealth {
        self.health.clone()
    }

    /// Waits until the worker has its lease and may claim.
    pub async fn registered(&self) {
        let _ = self.current.clone().wait_for(Option::is_some).await;
    }

    /// Waits for the worker's end.
    ///
    /// # Errors
    /// [`Error`] when the worker ended without being asked to stop: the process must exit.
    pub async fn ended(self) -> Result<(), Error> {
        match self.ended.await {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

impl Worker {
    /// Starts the worker. `stop` drains it: no new hints, and runs finish or are handed over within the drain time. An operator
    /// who asks it to drain cancels `stop`. `kill` drops all runs at once.
    ///
    /// # Errors
    /// [`Error::Lease`] when the lease thread cannot be started.
    pub fn start(
        self,
        tracker: &TaskTracker,
        stop: CancellationToken,
        kill: CancellationToken,
    ) -> Result<Running, Error> {
        let done = CancellationToken::new();
        let backend = HintBackend::start(self.redis.clone(), self.slots.clone(), tracker);
        let keeper = LeaseKeeper {
            url: self.database_url.clone(),
            worker: self.described(),
            ids: Arc::clone(&self.ids),
            process: self.process,
            config: self.lease,
            metrics: Arc::clone(&self.metrics),
            drain: stop.clone(),
            done: done.clone(),
            pause_lanes: pausing(backend.intake()),
            neighbour_gone: Arc::default(),
            send_hint: local_or_shared(backend.local_hints(), self.hints.clone()),
        };
        let neighbour_gone = Arc::clone(&keeper.neighbour_gone);
        let current = keeper.start()?;
        let health = backend.health();
        let webhooks = self.webhooks.clone().start(
            self.background.clone(),
            (Arc::clone(&self.ids), Arc::clone(&self.metrics)),
            tracker,
            (stop.clone(), done.clone()),
        );
        self.start_watchers(&backend, &current, neighbour_gone, &webhooks, tracker, &done);
        let sent = webhooks.drained;
        let ended = tracker.spawn(self.consume(
            backend,
            current.clone(),
            Ends { stop, kill, done },
            sent,
            tracker.clone(),
        ));
        Ok(Running { ended, health, current })
    }

    /// What it says of itself in its row.
    fn described(&self) -> WorkerDescription {
        let [slots, background_slots] =
            [self.slots.total(), self.slots.background()].map(|slots| i32::try_from(slots).ok());
        WorkerDescription { slots, background_slots, ..self.description.clone() }
    }

    /// Starts the task of triggers. Returns what makes it look at once.
    fn start_triggers(&self, tracker: &TaskTracker, done: &CancellationToken) -> Arc<Notify> {
        let look_now = Arc::new(Notify::new());
        let triggers = Triggers {
            store: self.background.clone(),
            bus: self.bus.clone(),
            ids: Arc::clone(&self.ids),
            config: self.triggers,
            look_now: Arc::clone(&look_now),
            stop: done.clone(),
        };
        tracker.spawn(triggers.run());
        look_now
    }

    /// Starts the tasks beside the consumer: sweep, reaper, listener and periodic jobs.
    fn start_watchers(
        &self,
        backend: &HintBackend,
        current: &Current,
        neighbour_gone: Arc<Notify>,
        webhooks: &RunningWebhooks,
        tracker: &TaskTracker,
        done: &CancellationToken,
    ) {
        let now = Arc::new(Notify::new());
        let sweeper = sweep::Sweeper {
            store: self.store.clone(),
            hints: self.hints.clone(),
            local: backend.local_hints(),
            redis: HintHealth::new(backend.health(), self.hints.health().clone()),
            urgencies: self.engine.urgencies(),
            config: self.sweep,
            stop: done.clone(),
        };
        let sweep_now = Arc::clone(&now);
        tracker.spawn(async move { sweeper.run(&sweep_now).await });
        let listener = listen::Listener {
            store: self.store.clone(),
            engine: Arc::clone(&self.engine),
            local: backend.local_hints(),
            redis: backend.health(),
            webhooks: Arc::clone(&webhooks.read_now),
            triggers: self.start_triggers(tracker, done),
            stop: done.clone(),
        };
        tracker.spawn(listener.run());
        let reaper = reaper::Reaper {
            store: self.store.clone(),
            engine: Arc::clone(&self.engine),
            current: current.clone(),
            times: reaper::Times::of(self.sweep, self.lease),
            neighbour_gone,
            sweep: now,
            stop: done.clone(),
        };
        tracker.spawn(reaper.run());
        tracker.spawn(erase::run(self.background.clone(), self.sweep, done.clone()));
        archive::start(&self.background, &self.engine, tracker, done);
        let agent_types = self.engine.agent_types();
        let scheduler = schedule::Scheduler {
            store: self.background.clone(),
            bus: self.bus.clone(),
            ids: Arc::clone(&self.ids),
            schedules: self.schedules.clone(),
            feed_kinds: schedule::kinds_with(agent_types, Mode::FeedGeneration),
            stop: done.clone(),
        };
        tracker.spawn(scheduler.run());
        tracker.spawn(listen::control(self.bus.clone(), Arc::clone(&self.engine), done.clone()));
        let monitor = Monitor {
            store: self.background.clone(),
            redis: self.redis.clone(),
            hints: self.hints.clone(),
            bus: self.bus.clone(),
            clock: Arc::clone(self.ids.clock()),
            kinds: Kinds::of_engine(&self.engine),
            config: self.monitor.clone(),
        };
        tracker.spawn(titles::run(Arc::clone(&self.engine), done.clone()));
        tracker.spawn(cron::run(Arc::new(monitor), current.clone(), done.clone()));
    }

    /// Consumes hints until stopped and drained. `sent`: what was being sent to webhooks is settled.
    async fn consume(
        self,
        backend: HintBackend,
        current: Current,
        Ends { stop, kill, done }: Ends,
        sent: CancellationToken,
        tracker: TaskTracker,
    ) -> Result<(), Error> {
        let (engine, holder) = (Arc::clone(&self.engine), current.clone());
        let trials = self.alone.clone().map(|alone| {
            let (engine, store) = (Arc::clone(&self.engine), self.store.clone());
            Arc::new(Trials { engine, store, current: current.clone(), alone, open: Mutex::default() })
        });
        let retry_hints =
            RetryHints { local: backend.local_hints(), trials, tracker: tracker.clone(), stop: stop.clone() };
        let direct = Arc::new_cyclic(|this| DirectStarts {
            engine: Arc::clone(&self.engine),
            current: current.clone(),
            intake: backend.intake(),
            retry_hints: retry_hints.clone(),
            runs: TaskTracker::new(),
            this: this.clone(),
        });
        self.store.start_directly(direct.this.clone());
        let handler = move |hint: Hint| {
            let (engine, holder, retry_hints) = (Arc::clone(&engine), holder.clone(), retry_hints.clone());
            async move { handle_hint(&engine, &holder, &retry_hints, hint).await }.boxed()
        };
        let consuming = async {
            run_worker(&self.description.name, backend, handler, stop.clone()).await?;
            direct.runs.close();
            direct.runs.wait().await;
            sent.cancelled().await;
            Ok::<(), houston_queue::Error>(())
        };
        let drained = async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(self.worker.drain_s)).await;
        };
        let ended = tokio::select! {
            ended = consuming => ended.map_err(Error::from),
            () = drained => {
                tracing::warn!(runs = self.engine.live().len(), "drain time is over; other workers continue the runs");
                Ok(())
            }
            () = kill.cancelled() => Ok(()),
        };
        // Stops the remaining runs. Other workers take them once the lease is given back.
        if let Some(holder) = current.borrow().as_ref() {
            holder.lost.cancel();
        }
        done.cancel();
        let mut gone = current;
        let _ = tokio::time::timeout(RESIGN_TIMEOUT, gone.wait_for(Option::is_none)).await;
        ended
    }
}

/// The tokens with which a worker ends.
struct Ends {
    /// Takes no more hints.
    stop: CancellationToken,
    /// Drops all runs.
    kill: CancellationToken,
    /// Cancelled when it has ended.
    done: CancellationToken,
}

/// Pauses lanes of an intake, and lets them go on.
fn pausing(intake: Intake) -> PauseLanes {
    Arc::new(move |lanes| intake.pause_lanes(lanes))
}

/// Sends a hint to this process if it takes hints, otherwise to all workers.
fn local_or_shared(local: LocalHints, hints: HintSender) -> Arc<dyn Fn(Lane, Hint) + Send + Sync> {
    Arc::new(move |lane, hint| {
        if local.try_send(lane, hint).is_err() {
            hints.send(lane, hint);
        }
    })
}
