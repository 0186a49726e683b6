//! [`Cells`]: what is read of each cell when a scraper asks: its queues, its servers, and what its health monitor found.
//!
//! It is the same in each process: read it with `max`, never with `sum`. A cell whose Postgres does not answer loses its own
//! series and no other's.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use houston_domain::agentable::Lane;
use houston_domain::health::HealthStatus;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{Atomic, Gauge};
use prometheus_client::registry::Registry;

use crate::labels::{Named, metric};

/// The check that says whether there is a health monitor at all: what a monitor that is gone had found is no longer true.
pub const MONITOR: &str = "monitor";

/// The values of the label `state`: agentables wait for a worker, or for the time of their next attempt, or a worker drives their
/// run.
const STATES: [&str; 3] = ["ready", "retrying", "running"];

/// A queue as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueSample {
    /// Agentables that are ready, retrying and running, in this order.
    pub depth: [u64; 3],
    /// Seconds for which the oldest one has been ready.
    pub oldest_s: f64,
    /// Whether an operator has paused it.
    pub paused: bool,
}

/// What the Postgres of a cell says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PostgresSample {
    /// In the order of [`Lane::ALL`].
    pub queues: [QueueSample; 3],
    /// The latest result of each check.
    pub checks: Vec<(String, HealthStatus)>,
    /// Whether a health monitor has checked lately.
    pub is_monitored: bool,
    /// The size of the database; `None`: as it was.
    pub bytes: Option<i64>,
}

/// What is read of each cell. A series of which nothing could be read is left out.
pub struct Cells {
    postgres: Family<Named<1>, Gauge>,
    redis: Family<Named<1>, Gauge>,
    depth: Family<Named<3>, Gauge>,
    oldest: Family<Named<2>, Gauge<f64, AtomicU64>>,
    paused: Family<Named<2>, Gauge>,
    bytes: Family<Named<1>, Gauge>,
    checks: Family<Named<2>, Gauge>,
    /// The checks that have a series, by cell.
    listed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Cells {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let up = "1 if the Postgres of the cell answered this process within 2 s, else 0";
        let postgres = metric(registry, ("postgres_up", up));
        let up = "1 while the Redis of the cell answers this process, else 0";
        let redis = metric(registry, ("redis_up", up));
        let depth = "Agentables of the cell by queue and state, up to 10,000; read with max";
        let depth = metric(registry, ("queue_depth", depth));
        let oldest = "Seconds for which the oldest ready agentable of the cell has waited; read with max";
        let oldest = metric(registry, ("queue_oldest_age_seconds", oldest));
        let paused = "1 while operators have paused the queue, else 0; read with max";
        let paused = metric(registry, ("queue_paused", paused));
        let bytes = "Bytes of the cell's database on disk, read once a minute; read with max";
        let bytes = metric(registry, ("database_bytes", bytes));
        let checks = "What the health monitor of the cell found: 0 ok, 1 warn, 2 red; read with max";
        let checks = metric(registry, ("health_check_status", checks));
        Self { postgres, redis, depth, oldest, paused, bytes, checks, listed: Mutex::default() }
    }

    /// Sets whether the Redis of a cell answers.
    pub fn set_redis(&self, cell: &str, is_up: bool) {
        self.redis.get_or_create(&of(cell)).set(i64::from(is_up));
    }

    /// Sets what the Postgres of a cell says; `None`: it did not answer.
    pub fn set_postgres(&self, cell: &str, sample: Option<&PostgresSample>) {
        self.postgres.get_or_create(&of(cell)).set(i64::from(sample.is_some()));
        for (nth, queue) in Lane::ALL.into_iter().enumerate() {
            self.set_queue(cell, queue, sample.map(|sample| sample.queues[nth]));
        }
        if sample.is_none_or(|sample| sample.bytes.is_some()) {
            put(&self.bytes, &of(cell), sample.and_then(|sample| sample.bytes));
        }
        self.set_checks(cell, sample);
    }

    fn set_queue(&self, cell: &str, queue: Lane, sample: Option<QueueSample>) {
        let two = with(cell, ("queue", queue.as_str()));
        for (nth, state) in STATES.into_iter().enumerate() {
            let [cell, queue] = two.clone();
            let three: Named<3> = [cell, queue, ("state", state.to_owned())];
            let depth = sample.map(|sample| i64::try_from(sample.depth[nth]).unwrap_or(i64::MAX));
            put(&self.depth, &three, depth);
        }
        put(&self.oldest, &two, sample.map(|sample| sample.oldest_s));
        put(&self.paused, &two, sample.map(|sample| i64::from(sample.paused)));
    }

    fn set_checks(&self, cell: &str, sample: Option<&PostgresSample>) {
        let mut now: BTreeMap<&str, HealthStatus> = BTreeMap::new();
        if let Some(sample) = sample {
            now.extend(sample.checks.iter().map(|(id, status)| (id.as_str(), *status)));
            now.insert(MONITOR, if sample.is_monitored { HealthStatus::Ok } else { HealthStatus::Red });
        }
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = now.keys().map(|id| (*id).to_owned()).collect();
        for gone in listed.insert(cell.to_owned(), ids).unwrap_or_default() {
            if !now.contains_key(gone.as_str()) {
                self.checks.remove(&with(cell, ("check", gone.as_str())));
            }
        }
        for (id, status) in now {
            // The statuses are in ascending order.
            self.checks.get_or_create(&with(cell, ("check", id))).set(status as i64);
        }
    }
}

/// Sets a series; without a value, removes it.
fn put<const LABELS: usize, N, A: Atomic<N> + Default>(
    family: &Family<Named<LABELS>, Gauge<N, A>>,
    labels: &Named<LABELS>,
    value: Option<N>,
) {
    match value {
        Some(value) => {
            family.get_or_create(labels).set(value);
        }
        None => {
            family.remove(labels);
        }
    }
}

fn of(cell: &str) -> Named<1> {
    [("cell", cell.to_owned())]
}

fn with(cell: &str, (name, value): (&'static str, &str)) -> Named<2> {
    [("cell", cell.to_owned()), (name, value.to_owned())]
}
