//! [`MetricsListener`]: the address at which Prometheus reads this process, if the operator gives one, and what is read from
//! the servers of each cell when it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use futures_util::future::join_all;
use houston_domain::agentable::{Lane, Urgency};
use houston_metrics::Metrics;
use houston_metrics::cells::{PostgresSample, QueueSample};
use houston_metrics::sampled::{Connections, InUse};
use houston_queue::{RedisHealth, Slots};
use houston_store::health::waiting::{KindDepth, QueueState};
use houston_store::{Purpose, Store};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::failure::{Failure, Result};
use crate::output::print_stderr;
use crate::system::System;

/// How long a look at the cells is used again: more scrapers than one must not cost the databases more.
const SAMPLE_AGE: Duration = Duration::from_secs(5);
/// How long the size of a database is used again: Postgres looks at each of its files.
const SIZE_AGE: Duration = Duration::from_secs(60);
/// Time limit of a look at a cell; a scrape must not wait for a database that does not answer.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The address at which Prometheus reads this process; `None`: there is none.
pub(crate) struct MetricsListener(Option<TcpListener>);

impl MetricsListener {
    /// Listens on `HOUSTON_METRICS_ADDRESS`, if it is set.
    ///
    /// # Errors
    /// [`Failure::Other`] when the address cannot be parsed or is in use.
    pub(crate) async fn bind(settings: &Settings) -> Result<Self> {
        let Some(address) = &settings.metrics_address else { return Ok(Self(None)) };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::Other(anyhow!(
                "cannot listen on {address} for metrics: {error}; set HOUSTON_METRICS_ADDRESS to another `address:port`"
            ))
        })?;
        print_stderr(&format!("metrics on http://{}/metrics", listener.local_addr()?));
        Ok(Self(Some(listener)))
    }

    /// Answers scrapers until the process has ended all runs and requests.
    pub(crate) fn serve(self, system: &System, has_api: bool, worker: Option<&Slots>) {
        let Some(listener) = self.0 else { return };
        let cells = system.cells.named().map(|(name, cell)| Cell {
            name: name.to_string(),
            store: cell.store.clone(),
            redis: cell.bus.health.clone(),
        });
        let kinds = system.loaded.kinds.iter();
        let sampler = Arc::new(Sampler {
            metrics: Arc::clone(&system.loaded.instruments.metrics),
            cells: cells.collect(),
            slots: worker.cloned(),
            draining: has_api.then(|| system.stop.clone()),
            urgencies: kinds.map(|(name, kind)| (name.clone(), kind.agent_type.urgency)).collect(),
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

/// The servers of a cell, as this process reaches them.
struct Cell {
    name: String,
    store: Store,
    redis: RedisHealth,
}

/// When the cells were read last.
#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    /// At the size of their databases, too.
    at_size: Option<Instant>,
}

/// Reads what only a scrape asks for.
struct Sampler {
    metrics: Arc<Metrics>,
    cells: Vec<Cell>,
    slots: Option<Slots>,
    /// Cancelled when the API of this process takes no more requests; `None`: it has none.
    draining: Option<CancellationToken>,
    /// By kind.
    urgencies: BTreeMap<String, Urgency>,
    looked: Mutex<Looked>,
}

impl Sampler {
    async fn sample(&self) {
        let sampled = &self.metrics.sampled;
        for purpose in Purpose::ALL {
            let mut sum = Connections::default();
            for found in self.cells.iter().map(|cell| cell.store.connections(purpose)) {
                sum.in_use.used += found.used;
                sum.in_use.free += found.free;
                sum.asked += found.asked;
                sum.waited += found.waited;
                sum.timed_out += found.timed_out;
            }
            sampled.set_connections(purpose.name(), sum);
        }
        if let Some((used, free)) = self.slots.as_ref().map(Slots::in_use) {
            sampled.set_slots(InUse { used, free });
        }
        if let Some(draining) = &self.draining {
            sampled.set_api(!draining.is_cancelled());
        }
        self.cells.iter().for_each(|cell| self.metrics.cells.set_redis(&cell.name, cell.redis.is_up()));
        // Scrapers that come together wait for one look.
        let mut looked = self.looked.lock().await;
        if looked.at.is_some_and(|at| at.elapsed() < SAMPLE_AGE) {
            return;
        }
        let with_size = looked.at_size.is_none_or(|at| at.elapsed() >= SIZE_AGE);
        // Each has its own time limit: one that is away takes nothing from the others.
        join_all(self.cells.iter().map(|cell| self.look_at(cell, with_size))).await;
        looked.at = Some(Instant::now());
        if with_size {
            looked.at_size = looked.at;
        }
    }

    async fn look_at(&self, cell: &Cell, with_size: bool) {
        let mut sample = match timeout(SAMPLE_TIMEOUT, self.ask(cell)).await {
            Ok(Ok(sample)) => Some(sample),
            Ok(Err(error)) => {
                tracing::debug!(%error, cell = cell.name, "the cell could not be read for metrics");
                None
            }
            Err(_) => None,
        };
        if let Some(sample) = sample.as_mut().filter(|_| with_size) {
            // By itself: a database of very many files must not take the other series with it.
            let bytes = timeout(SAMPLE_TIMEOUT, cell.store.background().database_bytes()).await;
            sample.bytes = bytes.ok().and_then(Result::ok);
        }
        self.metrics.cells.set_postgres(&cell.name, sample.as_ref());
    }

    /// What the Postgres of a cell says.
    async fn ask(&self, cell: &Cell) -> houston_store::Result<PostgresSample> {
        let runs = cell.store.background();
        let mut queues = self.queues(&runs.queues().await?);
        let paused = runs.paused_lanes().await?;
        for (queue, sample) in Lane::ALL.into_iter().zip(&mut queues) {
            sample.paused = paused.iter().any(|lane| lane == queue.as_str());
        }
        let health = cell.store.api().health().await?;
        let checks = health.checks.into_iter().map(|check| (check.id, check.status)).collect();
        Ok(PostgresSample { queues, checks, is_monitored: health.is_monitored, bytes: None })
    }

    /// Sums up the kinds of each queue. A kind that this process does not have counts as interactive, as for hints.
    fn queues(&self, kinds: &[KindDepth]) -> [QueueSample; 3] {
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
