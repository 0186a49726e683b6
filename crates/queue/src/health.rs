//! Whether Redis answers: one state per connection; each outage is logged once per process.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::connection::Redis;
use crate::error::Failure;

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause; jitter at most doubles it.
const LONGEST_PAUSE: Duration = Duration::from_millis(2_500);

/// Whether Redis answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisState {
    /// None was configured.
    Absent,
    /// It does not answer, or has not answered yet.
    Down {
        /// Since when.
        since: DateTime<Utc>,
    },
    /// It answers.
    Up {
        /// Since when.
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

    /// The state now.
    #[must_use]
    pub fn state(&self) -> RedisState {
        *self.0.borrow()
    }

    /// Whether Redis answers. While it does not, look into Postgres each second.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self.state(), RedisState::Up { .. })
    }

    /// Waits for the next change and returns the new state; for ever, if none can come any more.
    pub async fn changed(&mut self) -> RedisState {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.0.borrow_and_update()
    }
}

/// The record of one connection: keeps its health, paces its reconnects, and logs each outage once.
pub(crate) struct Line {
    purpose: &'static str,
    redis: Redis,
    state: watch::Sender<RedisState>,
    pauses: ExponentialBackoff,
    outage_seen: bool,
}

impl Line {
    pub(crate) fn new(purpose: &'static str, redis: Redis) -> Self {
        let since = redis.clock().now();
        Self {
            purpose,
            redis,
            state: watch::Sender::new(RedisState::Down { since }),
            pauses: pauses(),
            outage_seen: false,
        }
    }

    pub(crate) fn health(&self) -> RedisHealth {
        RedisHealth(self.state.subscribe())
    }

    /// Redis answered.
    pub(crate) fn works(&mut self) {
        if matches!(*self.state.borrow(), RedisState::Up { .. }) {
            return;
        }
        let (purpose, address) = (self.purpose, self.redis.address());
        if std::mem::take(&mut self.outage_seen) && self.redis.announce_outage(false) {
            tracing::info!(purpose, address, "redis is back");
        } else {
            tracing::debug!(purpose, address, "redis connected");
        }
        self.pauses = pauses();
        self.state.send_replace(RedisState::Up { since: self.redis.clock().now() });
    }

    /// Redis did not answer. Returns how long to wait before the next try.
    pub(crate) fn failed(&mut self, failure: &Failure) -> Duration {
        if !std::mem::replace(&mut self.outage_seen, true) {
            let (purpose, address) = (self.purpose, self.redis.address());
            if self.redis.announce_outage(true) {
                tracing::warn!(purpose, address, error = %failure, "redis is away, asking postgres each second");
            } else {
                tracing::debug!(purpose, address, error = %failure, "redis is away on this connection, too");
            }
        }
        if matches!(*self.state.borrow(), RedisState::Up { .. }) {
            self.state.send_replace(RedisState::Down { since: self.redis.clock().now() });
        }
        self.pauses.next().unwrap_or(LONGEST_PAUSE)
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_seconds_and_never_end() {
        let pauses: Vec<_> = pauses().take(50).collect();
        assert!(pauses[0] >= FIRST_PAUSE && pauses[0] <= FIRST_PAUSE * 2);
        assert!(pauses[49] >= LONGEST_PAUSE && pauses[49] <= LONGEST_PAUSE * 2);
    }
}
