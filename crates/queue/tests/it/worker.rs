//! A worker whose handlers are controlled by the test.

use std::sync::{Arc, Mutex};

use houston_queue::{
    Error, Hint, HintBackend, HintSettings, Intake, LocalHints, Redis, RedisHealth, Slots, run_worker,
};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::server::eventually;

pub(crate) fn hint(n: u128) -> Hint {
    Hint::run(Uuid::from_u128(n).into())
}

/// The hints whose handlers began and ended, and the permits with which handlers end.
#[derive(Clone)]
pub(crate) struct Log {
    begun: Arc<Mutex<Vec<Hint>>>,
    ended: Arc<Mutex<Vec<Hint>>>,
    /// A handler ends when it has acquired a permit.
    pub(crate) leave: Arc<Semaphore>,
}

impl Log {
    pub(crate) fn begun(&self) -> Vec<Hint> {
        self.begun.lock().unwrap().clone()
    }

    pub(crate) fn ended(&self) -> Vec<Hint> {
        self.ended.lock().unwrap().clone()
    }

    pub(crate) async fn wait_begun(&self, count: usize) {
        eventually(&format!("{count} handlers begun"), async || self.begun().len() >= count).await;
    }

    pub(crate) async fn wait_ended(&self, count: usize) {
        eventually(&format!("{count} handlers ended"), async || self.ended().len() >= count).await;
    }
}

/// Settings without reserved slots: hints of every lane may use all of them.
pub(crate) fn unreserved(max_in_flight: usize, max_batch: usize) -> HintSettings {
    HintSettings { max_in_flight, background: max_in_flight, maintenance: max_in_flight, max_batch }
}

pub(crate) struct Worker {
    pub(crate) log: Log,
    pub(crate) slots: Slots,
    pub(crate) intake: Intake,
    pub(crate) local: LocalHints,
    pub(crate) health: RedisHealth,
    pub(crate) stop: CancellationToken,
    pub(crate) tracker: TaskTracker,
    pub(crate) running: JoinHandle<Result<(), Error>>,
}

impl Worker {
    /// A worker whose handlers end at once.
    pub(crate) fn quick(redis: Option<Redis>, max_in_flight: usize) -> Self {
        Self::start(redis, max_in_flight, Semaphore::MAX_PERMITS)
    }

    /// A worker whose first `leave` handlers end at once.
    pub(crate) fn start(redis: Option<Redis>, max_in_flight: usize, leave: usize) -> Self {
        Self::start_with(redis, unreserved(max_in_flight, 64), leave)
    }

    pub(crate) fn start_with(redis: Option<Redis>, settings: HintSettings, leave: usize) -> Self {
        let tracker = TaskTracker::new();
        let stop = CancellationToken::new();
        let slots = Slots::from(settings);
        let backend = HintBackend::start(redis, slots.clone(), &tracker);
        let (intake, local, health) = (backend.intake.clone(), backend.local.clone(), backend.health.clone());
        let log =
            Log { begun: Arc::default(), ended: Arc::default(), leave: Arc::new(Semaphore::new(leave)) };
        let seen = log.clone();
        let handler = move |hint: Hint| -> futures_util::future::BoxFuture<'static, ()> {
            let log = seen.clone();
            log.begun.lock().unwrap().push(hint);
            Box::pin(async move {
                log.leave.acquire().await.unwrap().forget();
                log.ended.lock().unwrap().push(hint);
            })
        };
        let running = tracker.spawn(run_worker("test", backend, handler, stop.clone()));
        Self { log, slots, intake, local, health, stop, tracker, running }
    }

    pub(crate) async fn up(&self) {
        eventually("redis hands out hints", async || self.health.is_up()).await;
    }

    /// Stops the worker and waits for all its tasks.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
