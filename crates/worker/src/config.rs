//! The worker's settings, from `jobs/orchestrator.toml`, `jobs/triggers.toml` and `jobs/webhooks.toml`. Reasons for the values are in these files.

use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::setting::{WrongSetting, positive, within};
use houston_domain::webhook::DeliveryRetry;
use houston_queue::{HintSettings, Slots};
use houston_store::Sizes;
use houston_store::trigger_firing::FiringLimits;
use houston_web::ListedHost;
use serde::{Deserialize, Serialize};

/// Hints that one round trip to Redis takes at most, so that idle workers share a burst.
const MAX_BATCH: usize = 64;

/// `[lease]`: when a worker counts as dead, and when a message is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseConfig {
    /// Seconds without a renewal after which a worker counts as dead.
    pub ttl_s: u64,
    /// Seconds between renewals.
    #[serde(deserialize_with = "positive")]
    pub renew_s: u64,
    /// Milliseconds between two checks of the lease's connection. A broken one is replaced at once.
    #[serde(deserialize_with = "positive")]
    pub look_ms: u64,
    /// Seconds for which a worker trusts its last renewal, by its own boot-time clock; less than `ttl_s`.
    pub trust_s: u64,
    /// Deaths of workers in a row, without a committed step between, after which a message is given up.
    #[serde(deserialize_with = "positive")]
    pub max_crashes: i32,
    /// Claims in a row without a committed step after which a message is given up, even if no worker died.
    #[serde(deserialize_with = "positive")]
    pub max_claims: i32,
    /// Milliseconds such a message waits for a worker that was taken for dead but is alive.
    pub doubt_ms: u64,
}

impl LeaseConfig {
    /// Checks that a worker renews its lease before it stops trusting it, and stops before others take it for dead.
    ///
    /// # Errors
    /// [`WrongSetting`] at the time that is too long.
    pub fn check(&self) -> Result<(), WrongSetting> {
        if self.trust_s >= self.ttl_s {
            return Err(WrongSetting::new("/trust_s", format!("must be less than ttl_s ({})", self.ttl_s)));
        }
        if self.renew_s >= self.trust_s {
            let reason = format!("must be less than trust_s ({})", self.trust_s);
            return Err(WrongSetting::new("/renew_s", reason));
        }
        Ok(())
    }

    /// Time after a restart of Postgres within which each living worker has its advisory lock again: one check of its
    /// connection, and the time to reconnect.
    pub fn settled(&self) -> Duration {
        Duration::from_millis(self.look_ms + 2000)
    }
}

/// `[sweep]`: how often Postgres is searched for work, dead workers and erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepConfig {
    /// Milliseconds between two sweeps for work whose hint was lost.
    #[serde(deserialize_with = "positive")]
    pub every_ms: u64,
    /// The same while Redis is unreachable.
    #[serde(deserialize_with = "positive")]
    pub without_redis_ms: u64,
    /// Milliseconds between two searches for dead workers and cancelled runs.
    #[serde(deserialize_with = "positive")]
    pub reap_every_ms: u64,
    /// Milliseconds for which a worker's lease connection must be missing before the worker counts as dead.
    pub suspect_ms: u64,
    /// The same when the worker that watches it noticed, and did not lose its own connection.
    pub grace_ms: u64,
    /// Agentables one sweep finds.
    #[serde(deserialize_with = "positive")]
    pub limit: i64,
    /// Milliseconds between two searches for requested erasures.
    #[serde(deserialize_with = "positive")]
    pub erase_every_ms: u64,
    /// Approximate number of rows of each table that one transaction erases.
    #[serde(deserialize_with = "positive")]
    pub erase_rows: i64,
}

impl SweepConfig {
    /// Checks that a worker has the time to notice a broken connection.
    ///
    /// # Errors
    /// [`WrongSetting`] at the time that is too short.
    pub fn check(&self, lease: &LeaseConfig) -> Result<(), WrongSetting> {
        if self.grace_ms <= lease.look_ms {
            let reason = format!("must be more than lease.look_ms ({})", lease.look_ms);
            return Err(WrongSetting::new("/grace_ms", reason));
        }
        if self.suspect_ms < self.grace_ms {
            let reason = format!("must be at least grace_ms ({})", self.grace_ms);
            return Err(WrongSetting::new("/suspect_ms", reason));
        }
        Ok(())
    }
}

/// `[worker]`: slots, connections, and time to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Runs driven at once.
    #[serde(deserialize_with = "positive")]
    pub slots: usize,
    /// Percent of the slots for background runs and maintenance; the others are reserved for interactive runs.
    #[serde(deserialize_with = "within::<1, 100, _, _>")]
    pub background_percent: u8,
    /// Percent of the slots for maintenance.
    #[serde(deserialize_with = "positive")]
    pub maintenance_percent: u8,
    /// Database connections of the process.
    #[serde(deserialize_with = "positive")]
    pub database_connections: u32,
    /// Percent of them for runs, and for background work; the others are for requests.
    pub run_connections_percent: u8,
    /// See [`Self::run_connections_percent`].
    pub background_connections_percent: u8,
    /// Milliseconds a model call, or tools that may be repeated, get to end once the process is stopping; then the run is
    /// handed over.
    pub hand_over_ms: u64,
    /// Seconds tools that may not be repeated get to finish once the process is stopping.
    pub drain_s: u64,
}

impl WorkerConfig {
    /// Checks that shares are not larger than their whole.
    ///
    /// # Errors
    /// [`WrongSetting`] at the share that is too large.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let connections =
            u32::from(self.run_connections_percent) + u32::from(self.background_connections_percent);
        if connections > 90 {
            let reason =
                "must be at most 90 together with background_connections_percent: requests need the rest";
            return Err(WrongSetting::new("/run_connections_percent", reason));
        }
        let background = self.background_percent;
        if self.maintenance_percent > background {
            let reason = format!("must be at most background_percent ({background}), of which it is a part");
            return Err(WrongSetting::new("/maintenance_percent", reason));
        }
        Ok(())
    }

    /// How many database connections each purpose has.
    pub fn connections(&self) -> Sizes {
        let (runs, background) = (self.run_connections_percent, self.background_connections_percent);
        Sizes::divide(self.database_connections, runs, background)
    }

    /// How many hints of each lane the queue delivers at once: at least one.
    pub fn slots(&self) -> Slots {
        let share = |percent: u8| (self.slots * usize::from(percent) / 100).max(1);
        Slots::from(HintSettings {
            max_in_flight: self.slots,
            background: share(self.background_percent),
            maintenance: share(self.maintenance_percent),
            max_batch: MAX_BATCH,
        })
    }
}

/// `jobs/triggers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggersConfig {
    /// Milliseconds between two looks.
    pub poll_ms: u64,
    /// Seconds between two looks for triggers while there are none.
    pub idle_s: u64,
    /// Events of one read, and triggers that one look fires.
    #[serde(deserialize_with = "positive")]
    pub page: i64,
    /// How often one trigger fires in an hour.
    #[serde(deserialize_with = "positive")]
    pub per_hour: i32,
    /// Seconds after which a time counts as missed.
    #[serde(deserialize_with = "positive")]
    pub grace_s: u32,
}

impl TriggersConfig {
    pub(crate) fn limits(&self) -> FiringLimits {
        FiringLimits { per_hour: self.per_hour, grace: TimeDelta::seconds(i64::from(self.grace_s)) }
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s.max(1))
    }
}

/// `jobs/webhooks.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Addresses outside of the public internet that may receive events.
    pub hosts: Vec<String>,
    /// Milliseconds between two reads of new events.
    pub poll_ms: u64,
    /// Seconds between two looks for webhooks while there are none.
    pub idle_s: u64,
    /// Events of one read.
    #[serde(deserialize_with = "positive")]
    pub page: i64,
    /// Seconds of one request.
    pub timeout_s: u64,
    /// Requests at once of this process.
    #[serde(deserialize_with = "positive")]
    pub at_once: usize,
    /// Requests at once to one webhook.
    #[serde(deserialize_with = "positive")]
    pub per_webhook: i64,
    /// Requests at once to all webhooks of one tenant.
    #[serde(deserialize_with = "positive")]
    pub per_tenant: i64,
    /// Seconds after which a delivery that was claimed is sent by another process.
    pub claim_s: u64,
    /// Days for which settled deliveries are kept.
    pub keep_days: u32,
    /// When a delivery is attempted again.
    pub retry: DeliveryRetry,
}

impl WebhooksConfig {
    /// How long a request may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.max(1))
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s.max(1))
    }

    /// Checks the addresses, and that no other process sends what is being sent.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let wrong = |url: &String| ListedHost::of(url).err().map(|refusal| format!("`{url}`: {refusal}"));
        if let Some(reason) = self.hosts.iter().find_map(wrong) {
            return Err(WrongSetting::new("/hosts", reason));
        }
        if self.claim_s <= self.timeout_s {
            let reason = format!("must be more than timeout_s ({})", self.timeout_s);
            return Err(WrongSetting::new("/claim_s", reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_settings_are_allowed() {
        let shipped: WebhooksConfig = toml::from_str(include_str!("../../../jobs/webhooks.toml")).unwrap();
        assert_eq!(shipped.check(), Ok(()));
        let short = WebhooksConfig { claim_s: 15, ..shipped };
        assert_eq!(short.check().unwrap_err().pointer, "/claim_s");
    }
}
