//! Hints through a Redis that writes to disk, from a sender to the handler of a worker: `cargo bench -p houston-queue`.
//!
//! `as_fast_as_possible` passes on as many as a sender may have queued; `one` passes on a single hint, to a worker that has
//! nothing else to do. The handler does nothing.

#![expect(clippy::expect_used, reason = "a benchmark may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use futures_util::future::BoxFuture;
use houston_domain::clock::SystemClock;
use houston_domain::id::AgentableId;
use houston_queue::{Hint, HintBackend, HintSender, HintSettings, Lane, Redis, RedisHealth, run_worker};
use houston_testkit::servers::TestServers;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// The slots of a worker with the settings of `jobs/orchestrator.toml`.
const SETTINGS: HintSettings =
    HintSettings { max_in_flight: 2000, background: 1500, maintenance: 200, max_batch: 64 };
/// Fewer than the sender queues, so that it drops none.
const MANY: usize = 4_000;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn as_fast_as_possible(bencher: Bencher<'_, '_>) {
    let mut lane = OpenLane::start();
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| lane.pass(MANY));
}

#[divan::bench(sample_count = 1_000, sample_size = 1)]
fn one(bencher: Bencher<'_, '_>) {
    let mut lane = OpenLane::start();
    let pause = || std::thread::sleep(Duration::from_millis(5));
    bencher.with_inputs(pause).bench_local_values(|()| lane.pass(1));
}

/// A sender and a worker.
struct OpenLane {
    // Ends before its server.
    runtime: Runtime,
    sender: HintSender,
    sent: usize,
    handled: Arc<(AtomicUsize, Notify)>,
    _servers: TestServers,
}

impl OpenLane {
    fn start() -> Self {
        let servers = TestServers::start_with(|config| (config.postgres, config.fsync) = (false, true));
        let servers = servers.expect("Redis is installed");
        let runtime = Runtime::new().expect("there are threads");
        let redis =
            Redis::open(servers.redis_url(), "bench", Arc::new(SystemClock)).expect("the URL is right");
        let handled = Arc::new((AtomicUsize::new(0), Notify::new()));
        let sender = runtime.block_on(async {
            let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
            let backend = HintBackend::start(Some(redis.clone()), SETTINGS, &tasks);
            wait_until_up(backend.health.clone()).await;
            let counts = Arc::clone(&handled);
            let handler = move |_: Hint| -> BoxFuture<'static, ()> {
                counts.0.fetch_add(1, Ordering::Relaxed);
                counts.1.notify_one();
                Box::pin(async {})
            };
            tasks.spawn(run_worker("hints", backend, handler, stop.clone()));
            let sender = HintSender::start(Some(redis), &tasks, stop);
            wait_until_up(sender.health.clone()).await;
            sender
        });
        Self { runtime, sender, sent: 0, handled, _servers: servers }
    }

    /// Sends so many hints; waits until all are handled.
    fn pass(&mut self, hints: usize) {
        for _ in 0..hints {
            // A lane holds a hint once, so no two may be equal.
            self.sent += 1;
            let id = AgentableId::from(Uuid::from_u128(self.sent as u128));
            self.sender.send(Lane::Interactive, Hint::run(id));
        }
        self.runtime.block_on(async {
            while self.handled.0.load(Ordering::Relaxed) < self.sent {
                self.handled.1.notified().await;
            }
        });
    }
}

async fn wait_until_up(health: RedisHealth) {
    while !health.is_up() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
