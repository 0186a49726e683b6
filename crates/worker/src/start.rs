//! Runs a [`Worker`]: takes hints, drives runs, and starts the jobs beside them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use houston_queue::{Hint, HintBackend, HintHealth, HintSender, Lane, LocalHints, RedisHealth, run_worker};
use houston_store::lease::WorkerDescription;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::drive::{DirectStarts, RetryHints};
use crate::health::{Kinds, Monitor};
use crate::jobs::{Jobs, Wakes};
use crate::lease::{Current, LeaseKeeper, LeaseThread, resigned};
use crate::trial::Trials;
use crate::worker::Worker;
use crate::{listen, reaper, titles, webhooks};

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
    ended: JoinHandle<Result<(), Error>>,
    health: RedisHealth,
    current: Current,
}

impl Running {
    /// Whether hints come from Redis. While they do not, Postgres is polled every second.
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
        let worker = Arc::new(self);
        let done = CancellationToken::new();
        let wakes = Wakes::default();
        let backend = HintBackend::start(worker.redis.clone(), worker.slots.clone(), tracker);
        let intake = backend.intake.clone();
        let slots = i32::try_from(worker.slots.total()).ok();
        let background_slots = i32::try_from(worker.slots.background()).ok();
        let keeper = LeaseKeeper {
            worker: Arc::clone(&worker),
            description: WorkerDescription { slots, background_slots, ..worker.description.clone() },
            drain: stop.clone(),
            done: done.clone(),
            pause_lanes: Arc::new(move |lanes| intake.pause_lanes(lanes)),
            neighbour_gone: Arc::clone(&wakes.reaper),
            send_hint: local_or_shared(backend.local.clone(), worker.hints.clone()),
        };
        let current = keeper.start()?;
        let health = backend.health.clone();
        let deliveries = Arc::clone(&wakes.deliveries);
        let sent = tracker.spawn(webhooks::run(Arc::clone(&worker), deliveries, stop.clone(), done.clone()));
        let jobs = Jobs {
            local: backend.local.clone(),
            redis: HintHealth { read: backend.health.clone(), write: worker.hints.health.clone() },
            current: current.clone(),
            monitor: worker.monitor(),
            wakes,
            swept: Mutex::default(),
            draining: stop.clone(),
            stop: done.clone(),
            worker: Arc::clone(&worker),
        };
        start_watchers(&backend, &jobs, tracker);
        jobs.start(tracker);
        let ends = Ends { stop, kill, done };
        let ended = tracker.spawn(worker.consume(backend, current.clone(), ends, sent, tracker.clone()));
        Ok(Running { ended, health, current })
    }

    fn monitor(&self) -> Monitor {
        Monitor {
            store: self.background.clone(),
            redis: self.redis.clone(),
            hints: self.hints.clone(),
            bus: self.bus.clone(),
            clock: Arc::clone(self.ids.clock()),
            kinds: Kinds::of_engine(&self.engine),
            config: self.monitor.clone(),
        }
    }

    /// Consumes hints until stopped and drained. `sent`: what was being sent to webhooks is settled.
    async fn consume(
        self: Arc<Self>,
        backend: HintBackend,
        current: Current,
        Ends { stop, kill, done }: Ends,
        sent: JoinHandle<()>,
        tracker: TaskTracker,
    ) -> Result<(), Error> {
        let trials = self.alone.clone().map(|alone| {
            let (worker, current) = (Arc::clone(&self), current.clone());
            Arc::new(Trials { worker, current, alone, open: Mutex::default() })
        });
        let retry_hints =
            RetryHints { local: backend.local.clone(), trials, tracker: tracker.clone(), stop: stop.clone() };
        let direct = Arc::new_cyclic(|this| DirectStarts {
            engine: Arc::clone(&self.engine),
            current: current.clone(),
            intake: backend.intake.clone(),
            retry_hints,
            runs: TaskTracker::new(),
            this: this.clone(),
        });
        self.store.start_directly(direct.this.clone());
        let starts = Arc::clone(&direct);
        let handler = move |hint: Hint| {
            let starts = Arc::clone(&starts);
            async move { starts.handle(hint).await }.boxed()
        };
        let consuming = async {
            run_worker(&self.description.name, backend, handler, stop.clone()).await?;
            direct.runs.close();
            direct.runs.wait().await;
            let _ = sent.await;
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
        resigned(current).await;
        ended
    }
}

/// Starts the tasks beside the consumer that wait for something else than their time, and the reaper.
fn start_watchers(backend: &HintBackend, jobs: &Jobs, tracker: &TaskTracker) {
    let Jobs { worker, current, wakes, stop, .. } = jobs;
    let listener = listen::Listener {
        worker: Arc::clone(worker),
        local: backend.local.clone(),
        redis: backend.health.clone(),
        wakes: wakes.clone(),
        stop: stop.clone(),
    };
    tracker.spawn(listener.run());
    let reaper = reaper::Reaper {
        worker: Arc::clone(worker),
        current: current.clone(),
        neighbour_gone: Arc::clone(&wakes.reaper),
        sweep: Arc::clone(&wakes.sweep),
        stop: stop.clone(),
    };
    tracker.spawn(reaper.run());
    tracker.spawn(listen::control(Arc::clone(worker), stop.clone()));
    tracker.spawn(titles::write_requested(Arc::clone(worker), stop.clone()));
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

/// Sends a hint to this process if it takes hints, otherwise to all workers.
fn local_or_shared(local: LocalHints, hints: HintSender) -> Arc<dyn Fn(Lane, Hint) + Send + Sync> {
    Arc::new(move |lane, hint| {
        if !local.try_send(lane, hint) {
            hints.send(lane, hint);
        }
    })
}
