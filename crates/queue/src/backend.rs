//! Our apalis backend: hints as tasks. All I/O happens in tasks of its own; polling only touches a channel,
//! so neither a busy worker nor a draining one holds anything up.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use apalis::prelude::{Backend, Task, TaskBuilder, WorkerContext};
use apalis_core::backend::BackendConfig;
use apalis_core::backend::finalize::Ephemeral;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use crate::connection::Redis;
use crate::health::{Line, RedisHealth};
use crate::hint::Hint;
use crate::intake::{Delivery, Intake};
use crate::local::LocalHints;
use crate::reader::Reader;
use crate::slot::SlotLayer;

/// How much a worker takes.
#[derive(Debug, Clone, Copy)]
pub struct HintSettings {
    /// How many handlers may run at once, at least 1.
    pub max_in_flight: usize,
    /// How many of those may be of the lanes below the interactive one, at least 1: the rest is reserved for
    /// people who wait.
    pub background: usize,
    /// How many of those may be of the maintenance lane, at least 1.
    pub maintenance: usize,
    /// How many hints one round trip brings at most, so that idle workers share a burst; at least 1.
    pub max_batch: usize,
}

/// Never happens: no failure of Redis ends a worker.
#[derive(Debug, thiserror::Error)]
pub enum NeverFails {}

/// Hints from Redis and from inside the process, as tasks for one apalis worker.
pub struct HintBackend {
    settings: HintSettings,
    deliveries: mpsc::Receiver<Delivery>,
    intake: Intake,
    local: LocalHints,
    health: RedisHealth,
    tracker: TaskTracker,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl HintSettings {
    /// So many at once, whatever their lane.
    #[must_use]
    pub fn unreserved(max_in_flight: usize, max_batch: usize) -> Self {
        Self { max_in_flight, background: max_in_flight, maintenance: max_in_flight, max_batch }
    }
}

impl HintBackend {
    /// Starts reading at once. Without Redis only local hints come. Handlers will run on `tracker`, too.
    #[must_use]
    pub fn start(redis: Option<Redis>, settings: HintSettings, tracker: &TaskTracker) -> Self {
        let intake = Intake::new(settings);
        let (worker, deliveries) = mpsc::channel(intake.max_in_flight());
        let local = LocalHints::new(intake.clone());
        tracker.spawn(local.clone().feed(worker.clone()));
        let health = match redis {
            None => RedisHealth::absent(),
            Some(redis) => {
                let line = Line::new("hints in", redis.clone());
                let health = line.health();
                tracker.spawn(Reader::new(redis, line, intake.clone(), worker, settings.max_batch).run());
                health
            }
        };
        Self { settings, deliveries, intake, local, health, tracker: tracker.clone(), stop: None }
    }

    /// Where the worker hands in what it found in Postgres itself.
    #[must_use]
    pub fn local_hints(&self) -> LocalHints {
        self.local.clone()
    }

    /// Pause, resume, and what came in.
    #[must_use]
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// Whether Redis hands out hints.
    #[must_use]
    pub fn health(&self) -> RedisHealth {
        self.health.clone()
    }

    pub(crate) fn tracker(&self) -> TaskTracker {
        self.tracker.clone()
    }

    /// Lets the worker end when `stop` is cancelled and its handlers have ended.
    pub(crate) fn stop_on(&mut self, stop: CancellationToken) {
        self.stop = Some(Box::pin(stop.cancelled_owned()));
    }

    fn close(&mut self, worker: &WorkerContext) {
        self.intake.close();
        self.deliveries.close();
        // Without this apalis would wait for a stop for ever once its backend has ended.
        let _ = worker.stop();
    }
}

impl Drop for HintBackend {
    fn drop(&mut self) {
        self.intake.close();
    }
}

impl Backend for HintBackend {
    type Task = Task<Hint>;
    type Error = NeverFails;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), NeverFails>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Option<Result<Task<Hint>, NeverFails>>> {
        if self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready()) {
            self.stop = None;
            self.close(worker);
            return Poll::Ready(None);
        }
        let delivery = ready!(self.deliveries.poll_recv(cx));
        Poll::Ready(delivery.map(|Delivery { hint, slot }| Ok(TaskBuilder::new(hint).data(slot).build())))
    }

    fn poll_close(&mut self, _: &mut Context<'_>, worker: &WorkerContext) -> Poll<Result<(), NeverFails>> {
        self.close(worker);
        let mut lost = 0;
        while self.deliveries.try_recv().is_ok() {
            lost += 1;
        }
        self.intake.counts.lost.fetch_add(lost, std::sync::atomic::Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl BackendConfig for HintBackend {
    type Args = Hint;
    type Id = ();
    /// Hints come decoded; apalis keeps nothing.
    type Kind = Ephemeral;
    type Config = HintSettings;
    type Layer = SlotLayer;

    fn config(&self) -> &HintSettings {
        &self.settings
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> SlotLayer {
        SlotLayer(())
    }
}

impl std::fmt::Debug for HintBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HintBackend").field("settings", &self.settings).finish_non_exhaustive()
    }
}
