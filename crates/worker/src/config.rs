//! The worker's share of `jobs/orchestrator.toml`.

use std::time::Duration;

use houston_queue::HintSettings;
use serde::{Deserialize, Serialize};

/// The lease of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseConfig {
    /// Seconds after which a worker that has not renewed is dead.
    pub ttl_s: u64,
    /// Seconds between renewals.
    pub renew_s: u64,
    /// Ms between two looks at the connection that carries the lease: one that broke is replaced at once.
    pub look_ms: u64,
    /// Seconds for which a worker trusts its last renewal, by its own boot-time clock; less than `ttl_s`.
    pub trust_s: u64,
    /// Workers that die in a row with a run, without a committed step between, before its message is given up.
    pub max_crashes: i32,
    /// Claims in a row without a committed step before a message is given up, whatever became of the workers.
    pub max_claims: i32,
    /// How long such a message waits for a worker that was taken for dead and lives, in ms.
    pub doubt_ms: u64,
}

impl LeaseConfig {
    /// How long after a restart of Postgres each living worker has taken its advisory lock again: a look at its
    /// connection, and the time to connect.
    #[must_use]
    pub fn settled(&self) -> Duration {
        Duration::from_millis(self.look_ms + 2000)
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
    /// How long the connection of a worker's lease must have been gone before the worker is dead, in ms.
    pub suspect_ms: u64,
    /// Agentables per sweep.
    pub limit: i64,
    /// For what was asked to be erased, in ms.
    pub erase_every_ms: u64,
    /// Rows of each table that one transaction erases, about.
    pub erase_rows: i64,
}

/// What one worker may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Runs driven at once.
    pub slots: usize,
    /// How many of 100 slots background runs and Houston's own chores may take; the others are kept for people
    /// who wait.
    pub background_percent: u8,
    /// How many of 100 slots Houston's own chores may take.
    pub maintenance_percent: u8,
    /// Database connections of the process.
    pub database_connections: u32,
    /// Ms a model call, or tools that may be repeated, may go on once the process is stopping; then the run is
    /// handed over.
    pub hand_over_ms: u64,
    /// Seconds tools that may not be repeated may take to finish once the process is stopping.
    pub drain_s: u64,
}

impl WorkerConfig {
    /// What the queue is to deliver at once; at least one hint of each lane.
    pub(crate) fn hints(&self, max_batch: usize) -> HintSettings {
        let share = |percent: u8| (self.slots * usize::from(percent) / 100).max(1);
        HintSettings {
            max_in_flight: self.slots,
            background: share(self.background_percent),
            maintenance: share(self.maintenance_percent),
            max_batch,
        }
    }
}
