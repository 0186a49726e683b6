//! [`Sampled`]: what is read when a scraper asks, from the database and from the pools of the process.
//!
//! Depth and age of queues, and whether they are paused, are those of the whole installation, the same in each process: read them with `max`.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::labels::{Fixed, gauges};
use crate::queue::Queue;

/// What agentables of a queue do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They wait for a worker.
    Ready,
    /// They wait for the time of their next attempt.
    Retrying,
    /// A worker drives their run.
    Running,
}

impl State {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Retrying, Self::Running];

    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Retrying => "retrying",
            Self::Running => "running",
        }
    }
}

/// A queue as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueSample {
    /// Agentables in each state, in the order of [`State::ALL`].
    pub depth: [u64; 3],
    /// Seconds for which the oldest one has been ready.
    pub oldest_s: f64,
    /// Whether an operator has paused it.
    pub paused: bool,
}

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
    depth: Family<Fixed<2>, Gauge>,
    oldest: Family<Fixed<1>, Gauge<f64, AtomicU64>>,
    paused: Family<Fixed<1>, Gauge>,
    slots: Family<Fixed<1>, Gauge>,
    connections: Family<Fixed<1>, Gauge>,
}

impl Sampled {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        Self {
            depth: gauges(
                registry,
                (
                    "queue_depth",
                    "Agentables of the installation by queue and state, up to 10,000; read with max",
                ),
            ),
            oldest: gauges(
                registry,
                (
                    "queue_oldest_age_seconds",
                    "Seconds for which the oldest ready agentable has waited; read with max",
                ),
            ),
            paused: gauges(
                registry,
                ("queue_paused", "1 while operators have paused the queue, else 0; read with max"),
            ),
            slots: gauges(registry, ("worker_slots", "Slots for runs of this worker")),
            connections: gauges(registry, ("db_pool_connections", "Connections of this process to Postgres")),
        }
    }

    /// Sets the queues, in the order of [`Queue::ALL`]; `None`: the database did not answer.
    pub fn set_queues(&self, queues: Option<[QueueSample; 3]>) {
        let Some(queues) = queues else {
            self.depth.clear();
            self.oldest.clear();
            self.paused.clear();
            return;
        };
        for (queue, sample) in Queue::ALL.into_iter().zip(queues) {
            for (state, depth) in State::ALL.into_iter().zip(sample.depth) {
                let labels = [("queue", queue.as_str()), ("state", state.as_str())];
                self.depth.get_or_create(&labels).set(i64::try_from(depth).unwrap_or(i64::MAX));
            }
            self.oldest.get_or_create(&[("queue", queue.as_str())]).set(sample.oldest_s);
            self.paused.get_or_create(&[("queue", queue.as_str())]).set(i64::from(sample.paused));
        }
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
