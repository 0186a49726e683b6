//! `jobs/health_monitor.toml`. Reasons for the values are in that file; the tables of the checks are beside these.

use std::time::Duration;

use houston_domain::setting::{WrongSetting, positive};
use serde::{Deserialize, Serialize};

use super::deletion::{RequestConfig, RetentionConfig};
use super::outcomes::OutcomeConfig;
use super::runs::RunAges;
use super::servers::{LeaseAges, ServerConfig};
use super::waiting::{SessionAges, WorkAges};

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

impl TickConfig {
    /// Checks that the period can be a cron schedule.
    ///
    /// # Errors
    /// [`WrongSetting`] when it cannot.
    pub fn check(&self) -> Result<(), WrongSetting> {
        self.schedule().map(drop)
    }

    /// The time between two ticks.
    pub fn every(&self) -> Duration {
        Duration::from_secs(self.every_s)
    }

    /// How long a result is valid: three periods.
    pub fn lasting(&self) -> Duration {
        self.every() * 3
    }

    /// The cron schedule of this period, with a field for seconds, such as `0 */5 * * * *`.
    ///
    /// # Errors
    /// [`WrongSetting`] when the period does not divide a minute, an hour or a day.
    pub fn schedule(&self) -> Result<String, WrongSetting> {
        let every = self.every_s;
        match every {
            1..60 if 60_u64.is_multiple_of(every) => Ok(format!("*/{every} * * * * *")),
            60..3600 if 3600_u64.is_multiple_of(every) && every.is_multiple_of(60) => {
                Ok(format!("0 */{} * * * *", every / 60))
            }
            3600..=86_400 if 86_400_u64.is_multiple_of(every) && every.is_multiple_of(3600) => {
                Ok(format!("0 0 */{} * * *", every / 3600))
            }
            _ => {
                let wanted = "must be seconds that divide a minute, minutes that divide an hour, or hours that divide a day";
                Err(WrongSetting::new("/every_s", format!("{wanted}: {every} does not")))
            }
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
            assert!(schedule(every).unwrap_err().reason.ends_with(&format!(": {every} does not")));
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
