//! The worker's share of `jobs/orchestrator.toml`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The lease of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseConfig {
    /// Seconds after which a worker that has not renewed is dead.
    pub ttl_s: u64,
    /// Seconds between renewals.
    pub renew_s: u64,
    /// Seconds for which a worker trusts its last renewal, by its own boot-time clock; less than `ttl_s`.
    pub trust_s: u64,
    /// Claims in a row without a committed step before a message is given up.
    pub max_crashes: i32,
}

impl LeaseConfig {
    /// How long after a restart of Postgres each living worker has renewed, and with it taken its advisory lock
    /// again: a renewal, and the time to connect.
    #[must_use]
    pub fn settled(&self) -> Duration {
        Duration::from_secs(self.renew_s + 2)
    }
}

/// How often Postgres is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepConfig {
    /// For what a lost hint forgot, in ms.
    pub every_ms: u64,
    /// The same while Redis is away, in ms.
    pub without_redis_ms: u64,
    /// For dead workers and cancelled runs, in ms.
    pub reap_every_ms: u64,
    /// Agentables per sweep.
    pub limit: i64,
}

/// What one worker may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Runs driven at once.
    pub slots: usize,
    /// Database connections of the process.
    pub database_connections: u32,
    /// Seconds runs may take to finish their step once the process was told to stop.
    pub drain_s: u64,
}
