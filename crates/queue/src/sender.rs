//! Sends hints to the lanes in Redis. Callers never wait: one task writes the queued hints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use houston_domain::clock::Clock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{PipelineConnection, Redis, run_until_stopped};
use crate::error::Failure;
use crate::health::{ConnectionMonitor, RedisHealth};
use crate::hint::{Hint, Lane};

/// How many hints may wait for the connection. Further hints are dropped; the sweep finds their agentables.
const MAX_WAITING: usize = 4_096;
/// How many hints one lane holds. Beyond that the newest are dropped; the sweep finds their agentables.
const MAX_LANE_HINTS: isize = 100_000;
/// Pause after which an idle writer tries whether Redis takes writes.
const PROBE: Duration = Duration::from_secs(1);
/// How many hints go into one round trip at most.
const MAX_BATCH: usize = 512;

/// Sends hints to the lanes of a Redis; cheap to clone.
#[derive(Clone)]
pub struct HintSender {
    outbox: Option<Outbox>,
    /// Whether the latest write succeeded. While there are no hints, a key is written and deleted every second.
    pub health: RedisHealth,
    /// The counts so far.
    pub counts: Arc<SenderCounts>,
}

#[derive(Clone)]
struct Outbox {
    queued: mpsc::Sender<QueuedHint>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone, Copy)]
struct QueuedHint {
    lane: Lane,
    hint: Hint,
    /// Milliseconds since 1970 when the hint was sent: its score in the lane, also after an outage.
    at: i64,
}

/// Counts of the hints this process sent.
#[derive(Debug, Default)]
pub struct SenderCounts {
    /// Written to Redis (where an equal hint may have waited already).
    pub sent: AtomicU64,
    /// Dropped, because too many were queued or Redis was unavailable.
    pub dropped: AtomicU64,
}

impl HintSender {
    /// Starts the one task that talks to Redis; without Redis every hint is dropped, and the sweep finds it.
    /// Hints sent before `stop` are still written, in one attempt.
    pub fn start(redis: Option<Redis>, tracker: &TaskTracker, stop: CancellationToken) -> Self {
        Self::with_lanes_of(MAX_LANE_HINTS, redis, tracker, stop)
    }

    /// Like [`Self::start`], with lanes that hold at most `max_lane_hints` hints.
    pub fn with_lanes_of(
        max_lane_hints: isize,
        redis: Option<Redis>,
        tracker: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let counts = Arc::new(SenderCounts::default());
        let Some(redis) = redis else { return Self { outbox: None, health: RedisHealth::absent(), counts } };
        let (queued, waiting) = mpsc::channel(MAX_WAITING);
        let outbox = Some(Outbox { queued, clock: Arc::clone(redis.clock()) });
        let monitor = ConnectionMonitor::new("hints out", redis.clone());
        let sender = Self { outbox, health: monitor.health(), counts: Arc::clone(&counts) };
        let writer = Writer {
            connection: PipelineConnection::new(redis.clone()),
            redis,
            monitor,
            counts,
            stop,
            max_lane_hints,
        };
        tracker.spawn(writer.run(waiting));
        sender
    }

    /// Sends a hint. Never waits and never fails; a hint that cannot be sent is counted and dropped.
    pub fn send(&self, lane: Lane, hint: Hint) {
        let taken = self.outbox.as_ref().is_some_and(|outbox| {
            let at = outbox.clock.now().timestamp_millis();
            outbox.queued.try_send(QueuedHint { lane, hint, at }).is_ok()
        });
        if !taken {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl std::fmt::Debug for HintSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HintSender").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The task that writes the queued hints to Redis.
struct Writer {
    redis: Redis,
    connection: PipelineConnection,
    monitor: ConnectionMonitor,
    counts: Arc<SenderCounts>,
    stop: CancellationToken,
    max_lane_hints: isize,
}

impl Writer {
    async fn run(mut self, waiting: mpsc::Receiver<QueuedHint>) {
        let stop = self.stop.clone();
        run_until_stopped(&stop, self.write_all(waiting)).await;
    }

    async fn write_all(&mut self, mut waiting: mpsc::Receiver<QueuedHint>) {
        let keys = Lane::ALL.map(|lane| self.redis.lane(lane));
        let probe = self.redis.write_and_delete();
        let stop = self.stop.clone();
        let mut outcome = self.connection.connect().await;
        let mut batch = Vec::new();
        loop {
            match outcome {
                Ok(()) => self.monitor.succeeded(),
                Err(failure) => {
                    let pause = self.monitor.failed(&failure);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled(), if !waiting.is_closed() => waiting.close(),
                taken = waiting.recv_many(&mut batch, MAX_BATCH) => if taken == 0 { return },
                () = tokio::time::sleep(PROBE) => {}
            }
            outcome = match batch.is_empty() {
                true => self.connection.run(&probe).await,
                false => self.write(&keys, &mut batch).await,
            };
        }
    }

    /// Writes and clears `batch` in one round trip.
    async fn write(&mut self, keys: &[String; 3], batch: &mut Vec<QueuedHint>) -> Result<(), Failure> {
        let mut commands = redis::pipe();
        for (lane, key) in Lane::ALL.into_iter().zip(keys) {
            let mut of_lane = batch.iter().filter(|queued| queued.lane == lane).peekable();
            if of_lane.peek().is_none() {
                continue;
            }
            // NX: a hint that is in the lane already keeps its position.
            let add = commands.cmd("ZADD").arg(key).arg("NX");
            for queued in of_lane {
                add.arg(queued.at).arg(queued.hint.encode());
            }
            add.ignore();
            commands.cmd("ZREMRANGEBYRANK").arg(key).arg(self.max_lane_hints).arg(-1).ignore();
        }
        let outcome = self.connection.run(&commands).await;
        let count = if outcome.is_ok() { &self.counts.sent } else { &self.counts.dropped };
        count.fetch_add(batch.len() as u64, Relaxed);
        batch.clear();
        outcome
    }
}
