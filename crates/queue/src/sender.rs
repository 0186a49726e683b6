//! Sends hints to the lanes in Redis. Callers never wait: one task writes the queued hints.

use std::sync::Arc;
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
    /// Takes the hints for the task that writes them; with the clock that says when each was sent.
    outbox: Option<(mpsc::Sender<QueuedHint>, Arc<dyn Clock>)>,
    /// Whether the latest write succeeded. While there are no hints, a key is written and deleted every second.
    pub health: RedisHealth,
}

#[derive(Debug, Clone, Copy)]
struct QueuedHint {
    lane: Lane,
    hint: Hint,
    /// Milliseconds since 1970 when the hint was sent: its score in the lane, also after an outage.
    at: i64,
}

impl HintSender {
    /// Starts the one task that talks to Redis; without Redis every hint is dropped, and the sweep finds it.
    /// Hints sent before `stop` are still written, in one attempt.
    pub fn start(redis: Option<Redis>, tracker: &TaskTracker, stop: CancellationToken) -> Self {
        let Some(redis) = redis else { return Self { outbox: None, health: RedisHealth::absent() } };
        let (queued, waiting) = mpsc::channel(MAX_WAITING);
        let outbox = Some((queued, Arc::clone(redis.clock())));
        let monitor = ConnectionMonitor::new("hints out", redis.clone());
        let sender = Self { outbox, health: monitor.health() };
        let connection = PipelineConnection::new(redis.clone());
        tracker.spawn(Writer { redis, connection, monitor, stop }.run(waiting));
        sender
    }

    /// Sends a hint. Never waits and never fails; a hint that cannot be sent is dropped.
    pub fn send(&self, lane: Lane, hint: Hint) {
        if let Some((queued, clock)) = &self.outbox {
            let at = clock.now().timestamp_millis();
            // The sweep finds the agentable of one that has no room.
            let _ = queued.try_send(QueuedHint { lane, hint, at });
        }
    }
}

impl std::fmt::Debug for HintSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HintSender").field("health", &self.health).finish_non_exhaustive()
    }
}

/// The task that writes the queued hints to Redis.
struct Writer {
    redis: Redis,
    connection: PipelineConnection,
    monitor: ConnectionMonitor,
    stop: CancellationToken,
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
                    self.monitor.rest(&failure, &stop).await;
                    if stop.is_cancelled() {
                        return;
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled(), if !waiting.is_closed() => waiting.close(),
                taken = waiting.recv_many(&mut batch, MAX_BATCH) => if taken == 0 { return },
                () = tokio::time::sleep(PROBE) => {}
            }
            outcome = if batch.is_empty() {
                self.connection.run(&probe).await
            } else {
                self.write(&keys, &mut batch).await
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
            commands.cmd("ZREMRANGEBYRANK").arg(key).arg(MAX_LANE_HINTS).arg(-1).ignore();
        }
        batch.clear();
        self.connection.run(&commands).await
    }
}
