//! The apalis backend: delivers hints as apalis tasks. All I/O runs in separate tokio tasks; polling the backend only polls a
//! channel, so a busy or draining worker blocks nothing. The apalis worker on top of it runs each handler on its own task; a
//! worker that ends without having been stopped is an error.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use apalis::prelude::{
    Backend, Data, ParallelizeExt, Task, TaskBuilder, WorkerBuilder, WorkerContext, WorkerError,
};
use apalis_core::backend::BackendConfig;
use apalis_core::backend::finalize::Ephemeral;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tower::layer::util::Identity;

use crate::connection::Redis;
use crate::error::{Error, panic_message};
use crate::health::{ConnectionMonitor, RedisHealth};
use crate::hint::Hint;
use crate::intake::{Delivery, HintSettings, Intake, Slot, Slots};
use crate::local::LocalHints;
use crate::reader::Reader;

/// Delivers hints from Redis and from this process to one apalis worker.
#[derive(Debug)]
pub struct HintBackend {
    settings: HintSettings,
    deliveries: mpsc::Receiver<Delivery>,
    /// Pauses lanes, and takes slots for work without hints.
    pub intake: Intake,
    /// Accepts hints for agentables that the worker itself found in Postgres.
    pub local: LocalHints,
    /// Health of the connection that reads the lanes.
    pub health: RedisHealth,
    tracker: TaskTracker,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl HintBackend {
    /// Starts the tasks that read the lanes. Without Redis only local hints are delivered. Handlers are spawned on
    /// `tracker`, too. Backends that get the same [`Slots`] share them.
    pub fn start(redis: Option<Redis>, slots: impl Into<Slots>, tracker: &TaskTracker) -> Self {
        let slots = slots.into();
        let (intake, settings) = (Intake::new(&slots), slots.settings);
        let (worker, deliveries) = mpsc::channel(settings.max_in_flight);
        let local = LocalHints::new(intake.clone());
        tracker.spawn(local.clone().deliver_all(worker.clone()));
        let health = match redis {
            None => RedisHealth::absent(),
            Some(redis) => {
                let monitor = ConnectionMonitor::new("hints in", redis.clone());
                let health = monitor.health();
                tracker.spawn(Reader::new(redis, monitor, intake.clone(), worker, settings.max_batch).run());
                health
            }
        };
        Self { settings, deliveries, intake, local, health, tracker: tracker.clone(), stop: None }
    }

    fn close(&mut self, worker: &WorkerContext) {
        self.intake.close();
        self.deliveries.close();
        // Without this apalis would wait for a stop for ever after its backend has ended.
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
    /// No failure of Redis ends a worker.
    type Error = Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Option<Result<Task<Hint>, Infallible>>> {
        if self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready()) {
            self.stop = None;
            self.close(worker);
            return Poll::Ready(None);
        }
        let delivery = ready!(self.deliveries.poll_recv(cx));
        Poll::Ready(delivery.map(|Delivery { hint, slot }| Ok(TaskBuilder::new(hint).data(slot).build())))
    }

    fn poll_close(&mut self, _: &mut Context<'_>, worker: &WorkerContext) -> Poll<Result<(), Infallible>> {
        self.close(worker);
        // The sweep finds the agentables of those that were not taken; their slots are free again.
        while self.deliveries.try_recv().is_ok() {}
        Poll::Ready(Ok(()))
    }
}

impl BackendConfig for HintBackend {
    type Args = Hint;
    type Id = ();
    /// Hints are decoded already; apalis stores nothing.
    type Kind = Ephemeral;
    type Config = HintSettings;
    type Layer = Identity;

    fn config(&self) -> &HintSettings {
        &self.settings
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Identity {
        Identity::new()
    }
}

/// Runs an apalis worker called `name` over `backend` until `stop` is cancelled and every handler has ended; the caller
/// limits that wait. Each `handler` runs on its own task, on the tracker the backend was started with. A handler that
/// panics is logged, and its slot is released.
///
/// # Errors
/// [`Error::WorkerEnded`] when the worker ends although `stop` was not cancelled, [`Error::WorkerPanicked`] when it
/// panics. The process must then exit, because it gets no more hints.
pub async fn run_worker<H>(
    name: &str,
    mut backend: HintBackend,
    handler: H,
    stop: CancellationToken,
) -> Result<(), Error>
where
    H: Fn(Hint) -> BoxFuture<'static, ()> + Send + Sync + 'static,
{
    backend.stop = Some(Box::pin(stop.clone().cancelled_owned()));
    let tracker = backend.tracker.clone();
    let handler = Arc::new(handler);
    // The slot is free again when the handler has ended, however it ends.
    let guarded = move |hint: Hint, slot: Data<Slot>| {
        let handler = Arc::clone(&handler);
        async move {
            let _slot = slot;
            // Called inside the async block, so that a panic before the first await is caught, too.
            let run = AssertUnwindSafe(async { handler(hint).await }).catch_unwind();
            if let Err(panic) = run.await {
                let (agentable, panic) = (hint.agentable(), panic_message(&*panic));
                tracing::error!(%agentable, panic, "a hint's handler panicked");
            }
        }
    };
    let worker =
        WorkerBuilder::new(name).backend(backend).parallelize(move |run| tracker.spawn(run)).build(guarded);
    // Boxed, because the compiler cannot prove that the unboxed future is `Send`.
    let ended: BoxFuture<'static, Result<(), WorkerError>> = Box::pin(worker.run());
    match AssertUnwindSafe(ended).catch_unwind().await {
        Ok(Ok(())) if stop.is_cancelled() => Ok(()),
        Ok(ended) => Err(Error::WorkerEnded { name: name.to_owned(), source: ended.err() }),
        Err(panic) => Err(Error::WorkerPanicked { name: name.to_owned(), panic: panic_message(&*panic) }),
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::intake::HintSettings;

    #[tokio::test]
    async fn worker_that_ends_by_itself_is_an_error() {
        let settings = HintSettings { max_in_flight: 2, background: 2, maintenance: 2, max_batch: 2 };
        let backend = HintBackend::start(None, settings, &TaskTracker::new());
        // Simulates that a task that feeds the worker has died.
        backend.intake.close();
        let ended = run_worker("alone", backend, |_| Box::pin(async {}), CancellationToken::new()).await;
        assert!(matches!(ended, Err(Error::WorkerEnded { name, source: None }) if name == "alone"));
    }
}
