//! Webhooks: one process of each cell reads new events and makes deliveries of them; every process sends deliveries
//! that are due ([`sender`]).
//!
//! - An event becomes a delivery for each webhook that wants it, in the transaction that moves the reader's position.
//! - A delivery is sent at least once, with the same `webhook-id` each time. Those of one agentable are sent one after the
//!   other, for each webhook by itself.
//! - While no webhook is switched on, each process asks Postgres every `idle_s` whether there is one, and does nothing else.

mod sender;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::id::Ids;
use houston_domain::sealed::SecretKeys;
use houston_domain::webhook::DeliveryRetry;
use houston_metrics::Metrics;
use houston_store::copies::Copies;
use houston_store::fan_out::FannedOut;
use houston_store::{Result, RunStore};
use houston_web::Sinks;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Pages that are read in a row, before something else gets its turn.
const PAGES: usize = 100;
/// The longest rest after a page.
const MAX_REST: Duration = Duration::from_millis(500);
/// Reads between two looks for old deliveries.
const FORGET_EVERY: u32 = 600;
/// Old deliveries that one statement deletes.
const FORGET: i64 = 5_000;

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

/// What the two tasks share.
#[derive(Clone)]
struct Shared {
    store: RunStore,
    ids: Arc<Ids>,
    metrics: Arc<Metrics>,
    webhooks: Webhooks,
    /// A webhook was switched on or is to be replayed: read now.
    read_now: Arc<Notify>,
    /// Deliveries were made: send now.
    send_now: Arc<Notify>,
}

/// The running tasks.
#[derive(Debug, Clone)]
pub(crate) struct RunningWebhooks {
    /// Notified when a webhook is switched on or is to be replayed.
    pub(crate) read_now: Arc<Notify>,
    /// Cancelled when everything that was being sent when the process began to stop has been settled.
    pub(crate) drained: CancellationToken,
}

impl Webhooks {
    /// Starts the tasks. From `stop` on nothing is read or begun to be sent; what is being sent at `kill` is left to other
    /// processes.
    pub(crate) fn start(
        self,
        store: RunStore,
        (ids, metrics): (Arc<Ids>, Arc<Metrics>),
        tracker: &TaskTracker,
        (stop, kill): (CancellationToken, CancellationToken),
    ) -> RunningWebhooks {
        let (read_now, send_now) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let shared =
            Shared { store, ids, metrics, webhooks: self, read_now: Arc::clone(&read_now), send_now };
        tracker.spawn(read_events(shared.clone(), stop.clone()));
        let drained = CancellationToken::new();
        let sent = drained.clone();
        tracker.spawn(async move {
            sender::run(shared, stop, kill).await;
            sent.cancel();
        });
        RunningWebhooks { read_now, drained }
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

    fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }

    fn idle(&self) -> Duration {
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

/// Makes deliveries of new events, and of those that are to be replayed, and forgets old deliveries, until stopped.
async fn read_events(shared: Shared, stop: CancellationToken) {
    let mut reads = 0_u32;
    loop {
        let read = tokio::select! {
            () = stop.cancelled() => return,
            read = read(&shared, reads.is_multiple_of(FORGET_EVERY)) => read,
        };
        reads = reads.wrapping_add(1);
        let pause = read.unwrap_or_else(|error| {
            tracing::warn!(%error, "new events could not be read for webhooks; the next read gets them");
            shared.webhooks.config.poll()
        });
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.read_now.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Reads what is new once. Returns how long to wait for more.
async fn read(shared: &Shared, forgets: bool) -> Result<Duration> {
    let Shared { store, ids, webhooks, .. } = shared;
    let config = &webhooks.config;
    if forgets {
        let before = ids.clock().now() - TimeDelta::days(i64::from(config.keep_days));
        store.forget_deliveries(before, FORGET).await?;
    }
    if !store.has_webhooks().await? && !store.has_replays().await? {
        return Ok(config.idle());
    }
    for _ in 0..PAGES {
        let began = Instant::now();
        match store.fan_out(ids, config.page, ids.clock().now()).await? {
            FannedOut::Idle => break,
            FannedOut::Restarted => {
                tracing::error!(
                    "the position of webhooks was of another database, as after a restore from a dump: events before now are \
                     not sent; POST /v1/webhooks/{{id}}/replay asks for them"
                );
                break;
            }
            FannedOut::Read { deliveries, has_more, .. } => {
                if deliveries > 0 {
                    shared.send_now.notify_one();
                }
                rest(began).await;
                if !has_more {
                    break;
                }
            }
        }
    }
    for _ in 0..PAGES {
        let began = Instant::now();
        if !store.replay_some(ids, config.page, ids.clock().now()).await? {
            break;
        }
        shared.send_now.notify_one();
        rest(began).await;
    }
    Ok(config.poll())
}

/// Rests as long as a page has taken. Each event becomes a row for each webhook of its tenant: without a rest, those of a tenant
/// with many would take all that the disk of Postgres can write, and everyone else's commits wait for it.
async fn rest(began: Instant) {
    tokio::time::sleep(began.elapsed().min(MAX_REST)).await;
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
