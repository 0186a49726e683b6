//! Ringing: a hint handed in here is on its way to a worker, and the caller never waits for it.

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

/// How many hints may wait for the connection. What is rung beyond is dropped: the sweep finds it.
const WAITING: usize = 4_096;
/// How many hints one lane holds. Of more the last are dropped: the sweep finds them.
const LONGEST_LANE: isize = 100_000;
/// How many hints go into one round trip at most.
const BATCH: usize = 512;

/// Sends hints to the lanes of a Redis; cheap to clone.
#[derive(Clone)]
pub struct HintSender {
    bell: Option<Bell>,
    health: RedisHealth,
    counts: Arc<Counts>,
}

#[derive(Clone)]
struct Bell {
    rung: mpsc::Sender<Rung>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone, Copy)]
struct Rung {
    lane: Lane,
    hint: Hint,
    /// Milliseconds since 1970, read at the call: the place in the lane, kept through an outage.
    at: i64,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// What became of the hints this process rang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderCounts {
    /// Written to Redis (where an equal hint may have waited already).
    pub sent: u64,
    /// Dropped: too many at once, or Redis was away.
    pub dropped: u64,
}

impl HintSender {
    /// Starts the one task that talks to Redis; without Redis every hint is dropped, and the sweep finds it.
    /// What was handed in before `stop` is still sent, in one try.
    #[must_use]
    pub fn start(redis: Option<Redis>, tracker: &TaskTracker, stop: CancellationToken) -> Self {
        Self::with_lanes_of(LONGEST_LANE, redis, tracker, stop)
    }

    /// The same with lanes that hold no more than `longest_lane` hints.
    #[must_use]
    pub fn with_lanes_of(
        longest_lane: isize,
        redis: Option<Redis>,
        tracker: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let counts = Arc::new(Counts::default());
        let Some(redis) = redis else { return Self { bell: None, health: RedisHealth::absent(), counts } };
        let (rung, waiting) = mpsc::channel(WAITING);
        let bell = Some(Bell { rung, clock: Arc::clone(redis.clock()) });
        let line = Line::new("hints out", redis.clone());
        let sender = Self { bell, health: line.health(), counts: Arc::clone(&counts) };
        let writer = Writer { wire: Wire::new(redis.clone()), redis, line, counts, stop, longest_lane };
        tracker.spawn(writer.run(waiting));
        sender
    }

    /// Rings. Never waits, never fails; a hint that cannot be sent is counted and forgotten.
    pub fn send(&self, lane: Lane, hint: Hint) {
        let taken = self.bell.as_ref().is_some_and(|bell| {
            let at = bell.clock.now().timestamp_millis();
            bell.rung.try_send(Rung { lane, hint, at }).is_ok()
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
    async fn run(mut self, waiting: mpsc::Receiver<Rung>) {
        let stop = self.stop.clone();
        until_stopped(&stop, self.write_all(waiting)).await;
    }

    async fn write_all(&mut self, mut waiting: mpsc::Receiver<Rung>) {
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
    async fn write(&mut self, keys: &[String; 3], batch: &mut Vec<Rung>) -> Result<(), Failure> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for (lane, key) in Lane::ALL.into_iter().zip(keys) {
            let mut rung = batch.iter().filter(|rung| rung.lane == lane).peekable();
            if rung.peek().is_none() {
                continue;
            }
            // NX: whoever rings again keeps the place of the first ring.
            let add = commands.cmd("ZADD").arg(key).arg("NX");
            for one in rung {
                add.arg(one.at).arg(one.hint.encode());
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
