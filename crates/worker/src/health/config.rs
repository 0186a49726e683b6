//! `jobs/health_monitor.toml`. Reasons for the values are in that file.

use std::collections::BTreeMap;
use std::time::Duration;

use houston_domain::setting::{WrongSetting, positive, within};
use houston_store::health::retention::Aged;
use serde::{Deserialize, Serialize};

/// Schedule and thresholds of the health monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorConfig {
    /// Schedule, and how many rows are changed at once.
    pub tick: TickConfig,
    /// Time limits of runs and tasks.
    pub runs: RunAges,
    /// Time limits of waiting work.
    pub work: WorkAges,
    /// Time limits of session summaries.
    pub sessions: SessionAges,
    /// Time limits of expired leases.
    pub leases: LeaseAges,
    /// How long idempotency keys and the audit log are stored.
    pub requests: RequestConfig,
    /// How long events, history and model calls are stored.
    #[serde(default)]
    pub retention: RetentionConfig,
    /// Share of runs that may fail.
    pub outcomes: OutcomeConfig,
    /// Thresholds of the servers.
    pub servers: ServerConfig,
}

/// `[tick]`: schedule, and how many rows are changed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TickConfig {
    /// Seconds between two ticks. Must divide a minute, an hour or a day.
    pub every_s: u64,
    /// Rows one statement of a sweep changes.
    #[serde(deserialize_with = "positive")]
    pub batch: i64,
    /// Batches of one sweep in one tick.
    #[serde(deserialize_with = "positive")]
    pub batches: u32,
}

/// `[runs]`: time limits of runs and tasks, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAges {
    /// An attempt whose worker is alive.
    pub stuck_s: u64,
    /// An open task without a worker and without any change.
    pub stale_task_s: u64,
    /// The same for a goal or user agent.
    pub stale_goal_s: u64,
    /// A plan that waits for nothing that can come.
    pub stalled_plan_s: u64,
    /// A task that waits for a retry.
    pub paused_task_s: u64,
    /// A task after its end, until it is deleted.
    pub ended_task_s: u64,
    /// What counts against the limits of agents that post to other conversations or make some, until it is deleted.
    #[serde(deserialize_with = "within::<3600, { u64::MAX }, _, _>")]
    pub agent_message_s: u64,
}

/// `[work]`: time limits of waiting work in seconds, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkAges {
    /// Seconds until another hint is sent.
    pub late_s: u64,
    /// Seconds until the check is red.
    pub red_s: u64,
    /// Waiting agentables from which the queue counts as long.
    pub long_queue: i64,
}

/// `[sessions]`: how long a closed session may wait for its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionAges {
    /// Seconds until the check warns.
    pub late_s: u64,
    /// Seconds until the check is red.
    pub red_s: u64,
    /// Attempts at a summary after which its extract stays.
    pub attempts: i32,
}

/// `[leases]`: how long an expired lease may stay unreaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseAges {
    /// Seconds until the check is red.
    pub red_s: u64,
}

/// `[requests]`: how long idempotency keys and the audit log are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestConfig {
    /// Seconds from the first use of a key.
    pub idempotency_key_s: u64,
    /// Seconds for which records of the audit log are kept; 0: for ever.
    pub audit_s: u64,
}

/// `[retention]`: days for which things are stored; 0: for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionConfig {
    /// Events, since their run ended.
    pub events_days: u32,
    /// History, since its session was completed.
    pub history_days: u32,
    /// Model calls, since their run ended.
    pub model_calls_days: u32,
    /// What is different for a kind of agentable.
    #[serde(default)]
    pub kinds: BTreeMap<String, KindRetention>,
}

/// `[retention.kinds.<kind>]`: other numbers of days for this kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRetention {
    /// Instead of the one for all kinds.
    pub events_days: Option<u32>,
    /// Instead of the one for all kinds.
    pub history_days: Option<u32>,
    /// Instead of the one for all kinds.
    pub model_calls_days: Option<u32>,
}

impl RetentionConfig {
    /// The days for which a kind's `what` are stored; 0: for ever.
    #[must_use]
    pub fn days(&self, what: Aged, kind: &str) -> u32 {
        let own = self.kinds.get(kind).copied().unwrap_or_default();
        match what {
            Aged::Events => own.events_days.unwrap_or(self.events_days),
            Aged::History => own.history_days.unwrap_or(self.history_days),
            Aged::ModelCalls => own.model_calls_days.unwrap_or(self.model_calls_days),
        }
    }
}

/// `[outcomes]`: share of the latest runs that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeConfig {
    /// Seconds to look back.
    pub window_s: u64,
    /// Latest runs that are read.
    pub sample: i64,
    /// Percent of them that may have failed.
    pub failed_percent: i64,
    /// Runs there must be for the check to warn.
    pub least: i64,
}

/// `[servers]`: connections of Postgres, and clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Percent of connections in use from which the check warns.
    pub connections_warn_percent: i64,
    /// The same from which the check is red.
    pub connections_red_percent: i64,
    /// Seconds by which this machine's clock may differ from the database's.
    pub clock_skew_s: u64,
}

/// A period that cannot be a cron schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be seconds that divide a minute, minutes that divide an hour, or hours that divide a day: {0} does not"
)]
pub struct NoSchedule(pub u64);

impl TickConfig {
    /// Checks that the period can be a cron schedule.
    ///
    /// # Errors
    /// [`WrongSetting`] when it cannot.
    pub fn check(&self) -> Result<(), WrongSetting> {
        self.schedule().map(drop).map_err(|error| WrongSetting::new("/every_s", error.to_string()))
    }

    /// The time between two ticks.
    #[must_use]
    pub fn every(&self) -> Duration {
        Duration::from_secs(self.every_s)
    }

    /// How long a result is valid: three periods.
    #[must_use]
    pub fn lasting(&self) -> Duration {
        self.every() * 3
    }

    /// The cron schedule of this period, with a field for seconds, such as `0 */5 * * * *`.
    ///
    /// # Errors
    /// [`NoSchedule`] when the period does not divide a minute, an hour or a day.
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
    fn period_becomes_a_cron_schedule_at_round_times() {
        let schedule = |every_s| TickConfig { every_s, batch: 1, batches: 1 }.schedule();
        assert_eq!(schedule(300).unwrap(), "0 */5 * * * *");
        assert_eq!(schedule(1).unwrap(), "*/1 * * * * *");
        assert_eq!(schedule(3600).unwrap(), "0 0 */1 * * *");
        for every in [0, 7, 90, 420, 5 * 3600, 90_000] {
            assert_eq!(schedule(every), Err(NoSchedule(every)));
        }
    }

    #[test]
    fn shipped_file_can_be_read() {
        let text = include_str!("../../../../jobs/health_monitor.toml");
        let config: MonitorConfig = toml::from_str(text).unwrap();
        assert_eq!(config.tick.schedule().unwrap(), "0 */5 * * * *");
        assert_eq!(config.runs.stuck_s, 30 * 60);
    }
}
