//! Webhooks: one process of each cell reads new events and makes deliveries of them ([`reader`]); every process sends deliveries
//! that are due ([`sender`]).
//!
//! - An event becomes a delivery for each webhook that wants it, in the transaction that moves the reader's position.
//! - A delivery is sent at least once, with the same `webhook-id` each time. Those of one agentable are sent one after the
//!   other, for each webhook by itself.
//! - While no webhook is switched on, each process asks Postgres every `idle_s` whether there is one, and does nothing else.

pub(crate) mod config;
mod push;
mod reader;
mod sender;

use std::sync::Arc;

use houston_domain::id::Ids;
use houston_domain::sealed::SecretKeys;
use houston_metrics::Metrics;
use houston_store::RunStore;
use houston_store::copies::Copies;
use houston_web::Sinks;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::config::WebhooksConfig;

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
        tracker.spawn(reader::run(shared.clone(), stop.clone()));
        let drained = CancellationToken::new();
        let sent = drained.clone();
        tracker.spawn(async move {
            sender::run(shared, stop, kill).await;
            sent.cancel();
        });
        RunningWebhooks { read_now, drained }
    }
}
