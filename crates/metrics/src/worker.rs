//! [`Worker`]: leases and webhooks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::labels::{Fixed, counters, metric};

/// What became of a delivery to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver accepted it.
    Delivered,
    /// It is sent again later.
    Retried,
    /// It is not sent again.
    Dead,
    /// The receiver is gone, and the webhook was switched off.
    Gone,
}

/// The values of the label `outcome` of deliveries, in the order of [`Delivery`].
const DELIVERIES: [&str; 4] = ["delivered", "retried", "dead", "gone"];

/// Leases and webhooks of the workers of a process.
pub struct Worker {
    /// Leases that were lost while the process was alive.
    pub leases_lost: Counter,
    deliveries: [Counter; DELIVERIES.len()],
    heartbeat: Family<Fixed<0>, Gauge<f64, AtomicU64>>,
    started: Instant,
    leases: Mutex<Vec<Weak<Lease>>>,
}

/// When the lease of one worker was renewed last.
#[derive(Debug)]
pub struct Lease {
    started: Instant,
    /// Milliseconds after `started`.
    renewed: AtomicU64,
}

impl Lease {
    /// The lease was renewed.
    pub fn renewed(&self) {
        self.renewed.store(millis(self.started.elapsed()), Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Worker {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Leases that were lost while the process was alive: its runs went to other workers";
        let leases_lost = metric(registry, ("lease_lost", help));
        let help = "Attempts to deliver an event to a webhook, by what became of the delivery";
        let deliveries = counters(registry, ("webhook_deliveries", help), "outcome", DELIVERIES);
        let help =
            "Seconds since the oldest lease of this process was renewed; only in processes with a worker";
        let heartbeat = metric(registry, ("worker_heartbeat_age_seconds", help));
        Self { leases_lost, deliveries, heartbeat, started: Instant::now(), leases: Mutex::default() }
    }

    /// What became of a delivery.
    pub fn delivered(&self, outcome: Delivery) {
        self.deliveries[outcome as usize].inc();
    }

    /// The lease of a worker of this process, which begins now.
    pub fn lease(&self) -> Arc<Lease> {
        let lease = Arc::new(Lease { started: self.started, renewed: AtomicU64::new(0) });
        lease.renewed();
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|lease| lease.strong_count() > 0);
        leases.push(Arc::downgrade(&lease));
        lease
    }

    /// Sets the age of the oldest renewal.
    pub(crate) fn measure_heartbeat(&self) {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed =
            leases.iter().filter_map(Weak::upgrade).map(|lease| lease.renewed.load(Ordering::Relaxed));
        match renewed.min() {
            Some(renewed) => {
                let age = self.started.elapsed().saturating_sub(Duration::from_millis(renewed));
                self.heartbeat.get_or_create(&[]).set(age.as_secs_f64());
            }
            None => self.heartbeat.clear(),
        }
    }
}
