//! Webhooks: one process of each cell reads new events and makes deliveries of them ([`crate::jobs`]); every process sends
//! deliveries that are due ([`sender`]).
//!
//! - An event becomes a delivery for each webhook that wants it, in the transaction that moves the reader's position.
//! - A delivery is sent at least once, with the same `webhook-id` each time. Those of one agentable are sent one after the
//!   other, for each webhook by itself.
//! - While no webhook is switched on, each process asks Postgres every `idle_s` whether there is one, and does nothing else.

pub(crate) mod sender;

use std::sync::Arc;
use std::time::Duration;

use houston_domain::sealed::SecretKeys;
use houston_domain::setting::{WrongSetting, positive};
use houston_domain::webhook::DeliveryRetry;
use houston_store::copies::Copies;
use houston_web::{ListedHost, Sinks};
use serde::{Deserialize, Serialize};

/// What webhooks need besides the store.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// `jobs/webhooks.toml`.
    pub config: WebhooksConfig,
    /// Sends to the addresses of tenants.
    pub sinks: Arc<Sinks>,
    /// Opens the secrets that sign; without, nothing can be sent.
    pub keys: Option<SecretKeys>,
    /// Between the cells, if there are several: a receiver that is gone is gone for all.
    pub copies: Option<Copies>,
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
    #[must_use]
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
        let shipped: WebhooksConfig = toml::from_str(include_str!("../../../../jobs/webhooks.toml")).unwrap();
        assert_eq!(shipped.check(), Ok(()));
        let short = WebhooksConfig { claim_s: 15, ..shipped };
        assert_eq!(short.check().unwrap_err().pointer, "/claim_s");
    }
}
