//! The settings of webhooks, from `jobs/webhooks.toml`. Reasons for the values are in that file.

use std::time::Duration;

use houston_domain::webhook::DeliveryRetry;
use serde::{Deserialize, Serialize};

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
    pub page: i64,
    /// Seconds of one request.
    pub timeout_s: u64,
    /// Requests at once of this process.
    pub at_once: usize,
    /// Requests at once to one webhook.
    pub per_webhook: i64,
    /// Requests at once to all webhooks of one tenant.
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
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.max(1))
    }

    pub(super) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }

    pub(super) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s.max(1))
    }

    /// What breaks a rule: its key and what is allowed.
    #[must_use]
    pub fn violation(&self) -> Option<(&'static str, String)> {
        if self.claim_s <= self.timeout_s {
            return Some(("webhooks.claim_s", "must be more than webhooks.timeout_s".to_owned()));
        }
        let least = [
            ("webhooks.page", self.page),
            ("webhooks.per_webhook", self.per_webhook),
            ("webhooks.per_tenant", self.per_tenant),
            ("webhooks.at_once", i64::try_from(self.at_once).unwrap_or(i64::MAX)),
            ("webhooks.retry.attempts", i64::from(self.retry.attempts)),
            ("webhooks.retry.first_s", i64::try_from(self.retry.first_s).unwrap_or(i64::MAX)),
        ];
        let zero = least.into_iter().find(|(_, value)| *value < 1);
        zero.map(|(key, _)| (key, "must be at least 1".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_settings_are_allowed() {
        let shipped: WebhooksConfig = toml::from_str(include_str!("../../../../jobs/webhooks.toml")).unwrap();
        assert_eq!(shipped.violation(), None);
        let short = WebhooksConfig { claim_s: 15, ..shipped };
        assert_eq!(short.violation().unwrap().0, "webhooks.claim_s");
    }
}
