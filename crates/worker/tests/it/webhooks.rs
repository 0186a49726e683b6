//! Webhooks: events reach a receiver in order and completely, whatever it does.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::sealed::SecretKeys;
use houston_web::Sinks;
use houston_worker::{Webhooks, WebhooksConfig};

/// 32 bytes, in base64.
const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The shipped settings, which look more often, and these hosts.
pub(crate) fn settings(hosts: &[String]) -> Webhooks {
    let shipped = include_str!("../../../../jobs/webhooks.toml");
    let config: WebhooksConfig = toml::from_str(shipped).unwrap();
    let config = WebhooksConfig { poll_ms: 50, idle_s: 1, hosts: hosts.to_vec(), ..config };
    let sinks = Arc::new(Sinks::new(hosts, Duration::from_secs(2)));
    Webhooks { config, sinks, keys: Some(SecretKeys::parse(SECRETS_KEY).unwrap()) }
}
