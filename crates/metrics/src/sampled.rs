//! [`Sampled`]: what is read of the process when a scraper asks. What is read of the servers is in [`crate::cells`].

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::labels::{Fixed, gauges};

/// Connections or slots of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// Those that are used now.
    pub used: usize,
    /// Those that could be used at once.
    pub free: usize,
}

/// What is read when a scraper asks. A series of which nothing could be read is left out.
pub struct Sampled {
    api: Family<Fixed<0>, Gauge>,
    slots: Family<Fixed<1>, Gauge>,
    connections: Family<Fixed<1>, Gauge>,
}

impl Sampled {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let api = "1 while the API of this process takes requests, 0 while it drains; only in processes with an API";
        Self {
            api: gauges(registry, ("api_up", api)),
            slots: gauges(registry, ("worker_slots", "Slots for runs of this worker")),
            connections: gauges(registry, ("db_pool_connections", "Connections of this process to Postgres")),
        }
    }

    /// Sets whether the API of the process takes requests.
    pub fn set_api(&self, is_up: bool) {
        self.api.get_or_create(&[]).set(i64::from(is_up));
    }

    /// Sets the slots of the worker.
    pub fn set_slots(&self, slots: InUse) {
        set(&self.slots, slots);
    }

    /// Sets the connections to Postgres.
    pub fn set_connections(&self, connections: InUse) {
        set(&self.connections, connections);
    }
}

fn set(family: &Family<Fixed<1>, Gauge>, InUse { used, free }: InUse) {
    for (state, count) in [("used", used), ("free", free)] {
        family.get_or_create(&[("state", state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
