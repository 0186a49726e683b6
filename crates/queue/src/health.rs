//! Health of the connections to Redis. Each outage is logged once per process.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::connection::Redis;
use crate::error::Failure;

/// Pause after the first failure.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause, before jitter, which at most doubles it.
const MAX_PAUSE: Duration = Duration::from_millis(2_500);

/// The state of one connection to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisState {
    /// No Redis is configured.
    Absent,
    /// Redis does not answer, or has not answered yet.
    Down {
        /// Start of the outage.
        since: DateTime<Utc>,
    },
    /// Redis answers.
    Up {
        /// When it first answered after the last outage.
        since: DateTime<Utc>,
    },
}

/// A view of one connection's state; cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisHealth(watch::Receiver<RedisState>);

impl RedisHealth {
    /// The state of an installation without Redis.
    pub(crate) fn absent() -> Self {
        Self(watch::channel(RedisState::Absent).1)
    }

    /// The current state.
    pub fn state(&self) -> RedisState {
        *self.0.borrow()
    }

    /// Whether Redis answers. While it does not, callers poll Postgres every second.
    pub fn is_up(&self) -> bool {
        matches!(self.state(), RedisState::Up { .. })
    }
}

/// Whether hints go through Redis, which they do if they can be written and read. A Redis that is full, read-only or cannot
/// store its data answers reads and refuses writes.
#[derive(Debug, Clone)]
pub struct HintHealth {
    /// Of a connection that reads hints.
    pub read: RedisHealth,
    /// Of the one that writes them.
    pub write: RedisHealth,
}

impl HintHealth {
    /// Whether they do. While they do not, callers poll Postgres every second.
    pub fn is_up(&self) -> bool {
        self.read.is_up() && self.write.is_up()
    }

    /// Their state: down while one of the connections is.
    pub fn state(&self) -> RedisState {
        use RedisState::{Absent, Down, Up};
        match (self.read.state(), self.write.state()) {
            (Down { since: a }, Down { since: b }) => Down { since: a.min(b) },
            (down @ Down { .. }, _) | (_, down @ Down { .. }) => down,
            (Up { since: a }, Up { since: b }) => Up { since: a.max(b) },
            (Absent, other) | (other, Absent) => other,
        }
    }
}

/// Tracks one connection: publishes its health, computes the pauses between reconnects, and logs each outage once.
pub(crate) struct ConnectionMonitor {
    purpose: &'static str,
    redis: Redis,
    state: watch::Sender<RedisState>,
    backoff: ExponentialBackoff,
    outage_seen: bool,
}

impl ConnectionMonitor {
    pub(crate) fn new(purpose: &'static str, redis: Redis) -> Self {
        let since = redis.clock().now();
        Self {
            purpose,
            redis,
            state: watch::Sender::new(RedisState::Down { since }),
            backoff: backoff(),
            outage_seen: false,
        }
    }

    pub(crate) fn health(&self) -> RedisHealth {
        RedisHealth(self.state.subscribe())
    }

    /// Records a successful exchange.
    pub(crate) fn succeeded(&mut self) {
        if matches!(*self.state.borrow(), RedisState::Up { .. }) {
            return;
        }
        let (purpose, address) = (self.purpose, self.redis.address());
        if std::mem::take(&mut self.outage_seen) && self.redis.record_outage(false) {
            tracing::info!(purpose, address, "redis is available again");
        } else {
            tracing::debug!(purpose, address, "redis connected");
        }
        self.backoff = backoff();
        self.state.send_replace(RedisState::Up { since: self.redis.clock().now() });
    }

    /// Records a failure, and waits before the next attempt or until `stop`.
    pub(crate) async fn rest(&mut self, failure: &Failure, stop: &CancellationToken) {
        if !std::mem::replace(&mut self.outage_seen, true) {
            let (purpose, address) = (self.purpose, self.redis.address());
            if self.redis.record_outage(true) {
                tracing::warn!(purpose, address, error = %failure, "redis is unavailable, polling postgres every second");
            } else {
                tracing::debug!(purpose, address, error = %failure, "redis is unavailable on this connection, too");
            }
        }
        if matches!(*self.state.borrow(), RedisState::Up { .. }) {
            self.state.send_replace(RedisState::Down { since: self.redis.clock().now() });
        }
        let pause = self.backoff.next().unwrap_or(MAX_PAUSE);
        stop.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(MIN_PAUSE)
        .with_max_delay(MAX_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_five_seconds_and_never_ends() {
        let backoff: Vec<_> = backoff().take(50).collect();
        assert!(backoff[0] >= MIN_PAUSE && backoff[0] <= MIN_PAUSE * 2);
        assert!(backoff[49] >= MAX_PAUSE && backoff[49] <= MAX_PAUSE * 2);
    }
}
