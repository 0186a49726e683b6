//! [`Sampled`]: what is read of the process when a scraper asks. What is read of the servers is in [`crate::cells`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::labels::{Fixed, metric};

/// Connections or slots of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// Those that are used now.
    pub used: usize,
    /// Those that could be used at once.
    pub free: usize,
}

/// Connections for one purpose, and how long callers have waited for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// How many are used now, and could be.
    pub in_use: InUse,
    /// How often one was asked for, since the process began.
    pub asked: u64,
    /// How long callers have waited, altogether.
    pub waited: Duration,
    /// How often none came in time.
    pub timed_out: u64,
}

/// What is read when a scraper asks. A series of which nothing could be read is left out.
pub struct Sampled {
    api: Family<Fixed<0>, Gauge>,
    slots: Family<Fixed<1>, Gauge>,
    connections: Family<Fixed<2>, Gauge>,
    asked: Family<Fixed<1>, Counter>,
    waited: Family<Fixed<1>, Counter<f64, AtomicU64>>,
    timed_out: Family<Fixed<1>, Counter>,
}

impl Sampled {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let api = "1 while the API of this process takes requests, 0 while it drains; only in processes with an API";
        let waited = metric(registry, ("db_pool_wait_seconds", "Time waited for connections to Postgres"));
        let timed_out = "Callers who got no connection to Postgres in time";
        Self {
            api: metric(registry, ("api_up", api)),
            slots: metric(registry, ("worker_slots", "Slots for runs of this worker")),
            connections: metric(registry, ("db_pool_connections", "Connections of this process to Postgres")),
            asked: metric(registry, ("db_pool_acquires", "How often a connection to Postgres was asked for")),
            waited,
            timed_out: metric(registry, ("db_pool_timeouts", timed_out)),
        }
    }

    /// Sets whether the API of the process takes requests.
    pub fn set_api(&self, is_up: bool) {
        self.api.get_or_create(&[]).set(i64::from(is_up));
    }

    /// Sets the slots of the worker.
    pub fn set_slots(&self, slots: InUse) {
        for (state, count) in [("used", slots.used), ("free", slots.free)] {
            self.slots.get_or_create(&[("state", state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Sets the connections to Postgres for a purpose.
    pub fn set_connections(&self, purpose: &'static str, found: Connections) {
        let Connections { in_use: InUse { used, free }, asked, waited, timed_out } = found;
        for (state, count) in [("used", used), ("free", free)] {
            let gauge = self.connections.get_or_create_owned(&[("purpose", purpose), ("state", state)]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let label = [("purpose", purpose)];
        self.asked.get_or_create(&label).inner().store(asked, Ordering::Relaxed);
        self.waited.get_or_create(&label).inner().store(waited.as_secs_f64().to_bits(), Ordering::Relaxed);
        self.timed_out.get_or_create(&label).inner().store(timed_out, Ordering::Relaxed);
    }
}
