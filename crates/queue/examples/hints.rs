//! Sends hints through a Redis of the caller and handles them: `cargo run --release -p houston-queue --example hints --
//! <part> <redis url> <hints>`. `cargo xtask bench --hints` starts it and reads what it prints.
//!
//! The parts:
//! - `flood` sends as fast as the worker handles, with at most 4,000 hints under way; in one process.
//! - `idle` sends a hint every 10 ms; in one process.
//! - `work` and `send` are `idle` in two processes. `work` prints `working` once it takes hints.
//!
//! Each but `send` prints the seconds from the first hint to the last handler, and of each hint the microseconds from
//! sending it to the start of its handler: `{"seconds":2.5,"late_us":[310,290]}`. A handler does nothing but note this.

#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use houston_domain::clock::{Clock, SystemClock};
use houston_domain::id::AgentableId;
use houston_queue::{Hint, HintBackend, HintSender, HintSettings, Lane, Redis, RedisHealth, run_worker};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// The slots of a worker with the settings of `jobs/orchestrator.toml`.
const SETTINGS: HintSettings =
    HintSettings { max_in_flight: 2000, background: 1500, maintenance: 200, max_batch: 64 };
/// How many hints of a flood are under way at most: fewer than the sender queues, so that it drops none.
const UNDER_WAY: usize = 4_000;
/// Pause between two hints for an idle lane.
const GAP: Duration = Duration::from_millis(10);
/// Time limit of a part.
const PATIENCE: Duration = Duration::from_secs(120);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [part, url, hints] = arguments.as_slice() else {
        return Err("arguments: flood, idle, send or work; the URL of Redis; the number of hints".into());
    };
    let redis = Redis::open(url, "hints", Arc::new(SystemClock))?;
    let part = run(part, redis, hints.parse()?);
    tokio::time::timeout(PATIENCE, part).await.map_err(|_| "not all hints were handled in time")?
}

async fn run(part: &str, redis: Redis, hints: usize) -> Outcome<()> {
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let handled = Arc::new(Handled::default());
    let mut began = Instant::now();
    if part != "send" {
        start_worker(redis.clone(), &handled, &tasks, &stop).await;
    }
    if part == "work" {
        println!("working");
    } else {
        let mut sender = Sender::start(redis, &tasks, &stop).await;
        began = Instant::now();
        match part {
            "flood" => sender.send_all(hints, &handled).await?,
            "idle" | "send" => sender.send_slowly(hints).await?,
            _ => return Err(format!("there is no part `{part}`").into()),
        }
    }
    if part != "send" {
        let late = handled.all(hints).await;
        println!(
            r#"{{"seconds":{},"late_us":{}}}"#,
            began.elapsed().as_secs_f64(),
            serde_json::to_string(&late)?
        );
    }
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// Starts a worker; returns when it takes hints.
async fn start_worker(redis: Redis, handled: &Arc<Handled>, tasks: &TaskTracker, stop: &CancellationToken) {
    let backend = HintBackend::start(Some(redis), SETTINGS, tasks);
    let (health, handled) = (backend.health(), Arc::clone(handled));
    let handler = move |hint: Hint| -> futures_util::future::BoxFuture<'static, ()> {
        let handled = Arc::clone(&handled);
        Box::pin(async move { handled.note(hint) })
    };
    tasks.spawn(run_worker("hints", backend, handler, stop.clone()));
    wait_until_up(health).await;
}

async fn wait_until_up(mut health: RedisHealth) {
    while !health.is_up() {
        health.changed().await;
    }
}

/// Microseconds since 1970.
fn now() -> i64 {
    SystemClock.now().timestamp_micros()
}

/// Sends hints whose ids are the times of sending.
struct Sender {
    hints: HintSender,
    latest: i64,
}

impl Sender {
    async fn start(redis: Redis, tasks: &TaskTracker, stop: &CancellationToken) -> Self {
        let hints = HintSender::start(Some(redis), tasks, stop.clone());
        wait_until_up(hints.health().clone()).await;
        Self { hints, latest: 0 }
    }

    async fn send_slowly(&mut self, hints: usize) -> Outcome<()> {
        for _ in 0..hints {
            tokio::time::sleep(GAP).await;
            self.send()?;
        }
        Ok(())
    }

    async fn send_all(&mut self, hints: usize, handled: &Handled) -> Outcome<()> {
        let mut sent = 0;
        while sent < hints {
            let free = UNDER_WAY.saturating_sub(sent - handled.late().len()).min(hints - sent);
            for _ in 0..free {
                self.send()?;
            }
            sent += free;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn send(&mut self) -> Outcome<()> {
        // A lane holds a hint once, so no two may be equal.
        self.latest = now().max(self.latest + 1);
        let id = Uuid::from_u128(self.latest.unsigned_abs().into());
        self.hints.send(Lane::Interactive, Hint::run(AgentableId::from(id)));
        if self.hints.counts().dropped > 0 { Err("hints were dropped".into()) } else { Ok(()) }
    }
}

/// The hints that were handled.
#[derive(Default)]
struct Handled {
    late: Mutex<Vec<u64>>,
    grown: Notify,
}

impl Handled {
    fn late(&self) -> MutexGuard<'_, Vec<u64>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, hint: Hint) {
        let late = u128::from(now().unsigned_abs()).saturating_sub(hint.id.as_u128());
        self.late().push(u64::try_from(late).unwrap_or(u64::MAX));
        self.grown.notify_one();
    }

    /// Waits for the last of `hints`; returns how late each was.
    async fn all(&self, hints: usize) -> Vec<u64> {
        while self.late().len() < hints {
            self.grown.notified().await;
        }
        std::mem::take(&mut *self.late())
    }
}
