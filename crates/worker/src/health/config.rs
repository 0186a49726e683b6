//! `jobs/health_monitor.toml`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When the monitor looks, and what it thinks of what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorConfig {
    /// When it looks, and how much it changes at once.
    pub tick: TickConfig,
    /// How long a run may do what.
    pub runs: RunAges,
    /// How long work may wait for a worker.
    pub work: WorkAges,
    /// How long a closed session may wait for its summary.
    pub sessions: SessionAges,
    /// How long a lease may have been over.
    pub leases: LeaseAges,
    /// What is remembered of requests.
    pub requests: RequestConfig,
    /// How many runs may fail.
    pub outcomes: OutcomeConfig,
    /// What the servers must have left.
    pub servers: ServerConfig,
}

/// When the monitor looks, and how much it changes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TickConfig {
    /// Seconds between two ticks; it divides a minute, an hour or a day.
    pub every_s: u64,
    /// Rows one statement changes.
    pub batch: i64,
    /// Statements of one sweep in one tick.
    pub batches: u32,
}

/// How long a run may do what, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAges {
    /// One attempt, under a living worker.
    pub stuck_s: u64,
    /// For a task without a worker: seconds without any change.
    pub stale_task_s: u64,
    /// The same of what people talk with.
    pub stale_goal_s: u64,
    /// A task that waits for its next attempt.
    pub paused_task_s: u64,
    /// A task after its end.
    pub ended_task_s: u64,
}

/// How long work may wait for a worker, in seconds, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkAges {
    /// Until another hint is sent.
    pub late_s: u64,
    /// Until that is red.
    pub red_s: u64,
    /// Agentables in a long queue.
    pub long_queue: i64,
}

/// How long a closed session may wait for its summary, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionAges {
    /// Until that is a warning.
    pub late_s: u64,
    /// Until it is red.
    pub red_s: u64,
    /// How many attempts at a summary until its extract stays.
    pub attempts: i32,
}

/// How long a lease may have been over, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseAges {
    /// Until an unreaped lease is red.
    pub red_s: u64,
}

/// What is remembered of requests, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestConfig {
    /// An idempotency key, from its first use.
    pub idempotency_key_s: u64,
}

/// How many runs may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeConfig {
    /// Seconds to look back.
    pub window_s: u64,
    /// The latest runs looked at.
    pub sample: i64,
    /// Per cent of them that may have failed.
    pub failed_percent: i64,
    /// How many there must be for that.
    pub least: i64,
}

/// What the servers must have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Per cent of Postgres' connections taken.
    pub connections_warn_percent: i64,
    /// The same, red.
    pub connections_red_percent: i64,
    /// Seconds between the clocks.
    pub clock_skew_s: u64,
}

/// A period that no cron schedule has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be seconds that divide a minute, minutes that divide an hour, or hours that divide a day: {0} does not"
)]
pub struct NoSchedule(pub u64);

impl TickConfig {
    /// The period.
    #[must_use]
    pub fn every(&self) -> Duration {
        Duration::from_secs(self.every_s)
    }

    /// How long a result counts: three periods.
    #[must_use]
    pub fn lasting(&self) -> Duration {
        self.every() * 3
    }

    /// The cron schedule of this period, with seconds, on round times.
    ///
    /// # Errors
    /// [`NoSchedule`] when the period does not divide the next larger unit.
    pub fn schedule(&self) -> Result<String, NoSchedule> {
        let every = self.every_s;
        match every {
            0 => Err(NoSchedule(every)),
            1..60 if 60_u64.is_multiple_of(every) => Ok(format!("*/{every} * * * * *")),
            60..3600 if 3600_u64.is_multiple_of(every) && every.is_multiple_of(60) => {
                Ok(format!("0 */{} * * * *", every / 60))
            }
            3600..=86_400 if 86_400_u64.is_multiple_of(every) && every.is_multiple_of(3600) => {
                Ok(format!("0 0 */{} * * *", every / 3600))
            }
            _ => Err(NoSchedule(every)),
        }
    }
}

/// Seconds as a duration.
pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_become_schedules_on_round_times() {
        let schedule = |every_s| TickConfig { every_s, batch: 1, batches: 1 }.schedule();
        assert_eq!(schedule(300).unwrap(), "0 */5 * * * *");
        assert_eq!(schedule(1).unwrap(), "*/1 * * * * *");
        assert_eq!(schedule(3600).unwrap(), "0 0 */1 * * *");
        for every in [0, 7, 90, 420, 5 * 3600, 90_000] {
            assert_eq!(schedule(every), Err(NoSchedule(every)));
        }
    }

    #[test]
    fn the_shipped_file_can_be_read() {
        let text = include_str!("../../../../jobs/health_monitor.toml");
        let config: MonitorConfig = toml::from_str(text).unwrap();
        assert_eq!(config.tick.schedule().unwrap(), "0 */5 * * * *");
        assert_eq!(config.runs.stuck_s, 30 * 60);
    }
}
