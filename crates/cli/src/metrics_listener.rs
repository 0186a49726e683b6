//! [`MetricsListener`]: the address at which Prometheus reads this process, if the operator gives one, and what is read from
//! the database when it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use futures_util::future::try_join_all;
use houston_domain::agentable::Urgency;
use houston_metrics::sampled::{InUse, QueueSample};
use houston_metrics::{Metrics, Queue};
use houston_queue::Slots;
use houston_store::Store;
use houston_store::health::queues::{KindDepth, QueueState};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::commands::Failure;
use crate::config::Settings;
use crate::output::print_stderr;
use crate::system::System;

/// How long a look at the queues is used again: more scrapers than one must not cost the database more.
const SAMPLE_AGE: Duration = Duration::from_secs(5);
/// Time limit of a look at the queues; a scrape must not wait for a database that does not answer.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The address at which Prometheus reads this process; `None`: there is none.
pub(crate) struct MetricsListener(Option<TcpListener>);

impl MetricsListener {
    /// Listens on `HOUSTON_METRICS_ADDRESS`, if it is set.
    ///
    /// # Errors
    /// [`Failure::Other`] when the address cannot be parsed or is in use.
    pub(crate) async fn bind(settings: &Settings) -> Result<Self, Failure> {
        let Some(address) = &settings.metrics_address else { return Ok(Self(None)) };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::Other(anyhow!(
                "cannot listen on {address} for metrics: {error}; set HOUSTON_METRICS_ADDRESS to another `address:port`"
            ))
        })?;
        print_stderr(&format!("metrics on http://{}/metrics", listener.local_addr()?));
        Ok(Self(Some(listener)))
    }

    /// Answers scrapers until the process has ended all runs and requests. `slots`: those of its worker.
    pub(crate) fn serve(self, system: &System, slots: Option<&Slots>) {
        let Some(listener) = self.0 else { return };
        let sampler = Arc::new(Sampler {
            metrics: Arc::clone(&system.loaded.instruments.metrics),
            stores: system.cells.iter().map(|cell| cell.store.clone()).collect(),
            slots: slots.cloned(),
            urgencies: system
                .loaded
                .agent_types()
                .into_iter()
                .map(|(name, kind)| (name, kind.urgency))
                .collect(),
            looked: Mutex::default(),
        });
        let scrape: houston_api::Scrape = Arc::new(move || {
            let sampler = Arc::clone(&sampler);
            Box::pin(async move {
                sampler.sample().await;
                sampler.metrics.text().map_err(|error| error.to_string())
            })
        });
        system.tracker.spawn(houston_api::serve_metrics(listener, scrape, system.gone.clone()));
    }
}

/// Reads what only a scrape asks for.
struct Sampler {
    metrics: Arc<Metrics>,
    /// One for each cell.
    stores: Vec<Store>,
    slots: Option<Slots>,
    /// By kind.
    urgencies: BTreeMap<String, Urgency>,
    /// When the queues were read last.
    looked: Mutex<Option<Instant>>,
}

impl Sampler {
    async fn sample(&self) {
        let sampled = &self.metrics.sampled;
        let connections = self.stores.iter().map(Store::connections);
        let (used, free) = connections.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        sampled.set_connections(InUse { used, free });
        if let Some((used, free)) = self.slots.as_ref().map(Slots::in_use) {
            sampled.set_slots(InUse { used, free });
        }
        // Scrapers that come together wait for one look.
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|looked| looked.elapsed() < SAMPLE_AGE) {
            return;
        }
        let read = try_join_all(self.stores.iter().map(|store| async {
            anyhow::Ok((store.runs().queues().await?, store.runs().paused_lanes().await?))
        }));
        match timeout(SAMPLE_TIMEOUT, read).await {
            Ok(Ok(cells)) => {
                let mut queues = self.queues(cells.iter().flat_map(|(kinds, _)| kinds));
                for (queue, sample) in Queue::ALL.into_iter().zip(&mut queues) {
                    let is_it = |lane: &String| lane == queue.as_str();
                    sample.paused = cells.iter().any(|(_, paused)| paused.iter().any(is_it));
                }
                sampled.set_queues(Some(queues));
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the queues could not be read for metrics");
                sampled.set_queues(None);
            }
            Err(_) => sampled.set_queues(None),
        }
        *looked = Some(Instant::now());
    }

    /// Sums up the kinds of each queue. A kind that this process does not have counts as interactive, as for hints.
    fn queues<'k>(&self, kinds: impl Iterator<Item = &'k KindDepth>) -> [QueueSample; 3] {
        let mut queues = [QueueSample::default(); 3];
        for kind in kinds {
            let queue = match self.urgencies.get(&kind.kind).copied().unwrap_or_default() {
                Urgency::Interactive => &mut queues[0],
                Urgency::Background => &mut queues[1],
            };
            let state = match kind.state {
                QueueState::Ready => 0,
                QueueState::Retrying => 1,
                QueueState::Running => 2,
            };
            queue.depth[state] += u64::try_from(kind.agentables).unwrap_or(0);
            if kind.state == QueueState::Ready {
                queue.oldest_s = queue.oldest_s.max(kind.oldest_s);
            }
        }
        queues
    }
}
