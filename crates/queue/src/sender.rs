//! Sends hints to the lanes in Redis. A caller never waits: one task writes whatever was sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use houston_domain::clock::Clock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{Redis, Wire, until_stopped};
use crate::error::Failure;
use crate::health::{Line, RedisHealth};
use crate::hint::Hint;
use crate::lanes::Lane;

/// How many hints may wait for the connection. Further hints are dropped; the sweep finds their agentables.
const WAITING: usize = 4_096;
/// How many hints one lane holds. Beyond that the newest are dropped; the sweep finds their agentables.
const LONGEST_LANE: isize = 100_000;
/// How many hints go into one round trip at most.
const BATCH: usize = 512;

/// Sends hints to the lanes of a Redis; cheap to clone.
#[derive(Clone)]
pub struct HintSender {
    outbox: Option<Outbox>,
    health: RedisHealth,
    counts: Arc<Counts>,
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

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// What became of the hints this process sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderCounts {
    /// Written to Redis (where an equal hint may have waited already).
    pub sent: u64,
    /// Dropped: too many at once, or Redis was away.
    pub dropped: u64,
}

impl HintSender {
    /// Starts the one task that talks to Redis; without Redis every hint is dropped, and the sweep finds it.
    /// Hints sent before `stop` are still written, in one attempt.
    #[must_use]
    pub fn start(redis: Option<Redis>, tracker: &TaskTracker, stop: CancellationToken) -> Self {
        Self::with_lanes_of(LONGEST_LANE, redis, tracker, stop)
    }

    /// Like [`Self::start`], with lanes that hold at most `longest_lane` hints.
    #[must_use]
    pub fn with_lanes_of(
        longest_lane: isize,
        redis: Option<Redis>,
        tracker: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let counts = Arc::new(Counts::default());
        let Some(redis) = redis else { return Self { outbox: None, health: RedisHealth::absent(), counts } };
        let (queued, waiting) = mpsc::channel(WAITING);
        let outbox = Some(Outbox { queued, clock: Arc::clone(redis.clock()) });
        let line = Line::new("hints out", redis.clone());
        let sender = Self { outbox, health: line.health(), counts: Arc::clone(&counts) };
        let writer = Writer { wire: Wire::new(redis.clone()), redis, line, counts, stop, longest_lane };
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

    /// Whether Redis took the latest hints. It is not asked in between.
    #[must_use]
    pub fn health(&self) -> &RedisHealth {
        &self.health
    }

    /// What became of the hints so far.
    #[must_use]
    pub fn counts(&self) -> SenderCounts {
        SenderCounts { sent: self.counts.sent.load(Relaxed), dropped: self.counts.dropped.load(Relaxed) }
    }
}

impl std::fmt::Debug for HintSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HintSender").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The task behind the senders.
struct Writer {
    redis: Redis,
    wire: Wire,
    line: Line,
    counts: Arc<Counts>,
    stop: CancellationToken,
    longest_lane: isize,
}

impl Writer {
    async fn run(mut self, waiting: mpsc::Receiver<QueuedHint>) {
        let stop = self.stop.clone();
        until_stopped(&stop, self.write_all(waiting)).await;
    }

    async fn write_all(&mut self, mut waiting: mpsc::Receiver<QueuedHint>) {
        let keys = Lane::ALL.map(|lane| lane.key(&self.redis));
        let stop = self.stop.clone();
        let mut outcome = self.wire.connect().await;
        let mut batch = Vec::new();
        loop {
            match outcome {
                Ok(()) => self.line.works(),
                Err(failure) => {
                    let pause = self.line.failed(&failure);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled(), if !waiting.is_closed() => waiting.close(),
                taken = waiting.recv_many(&mut batch, BATCH) => if taken == 0 { return },
            }
            outcome = self.write(&keys, &mut batch).await;
        }
    }

    /// One round trip for all of `batch`.
    async fn write(&mut self, keys: &[String; 3], batch: &mut Vec<QueuedHint>) -> Result<(), Failure> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for (lane, key) in Lane::ALL.into_iter().zip(keys) {
            let mut of_lane = batch.iter().filter(|queued| queued.lane == lane).peekable();
            if of_lane.peek().is_none() {
                continue;
            }
            // NX: a hint that already waits keeps its position.
            let add = commands.cmd("ZADD").arg(key).arg("NX");
            for queued in of_lane {
                add.arg(queued.at).arg(queued.hint.encode());
            }
            add.ignore();
            commands.cmd("ZREMRANGEBYRANK").arg(key).arg(self.longest_lane).arg(-1).ignore();
        }
        let outcome = self.wire.run(&commands).await;
        let count = if outcome.is_ok() { &self.counts.sent } else { &self.counts.dropped };
        count.fetch_add(batch.len() as u64, Relaxed);
        batch.clear();
        outcome
    }
}
