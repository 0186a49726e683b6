//! What a process counts and measures, as Prometheus reads it: names, labels, buckets.
//!
//! [`Metrics`] is made once per process and passed to those who count. Whether anything reads it is decided elsewhere: an
//! event costs an addition or two in either case.
//!
//! # Invariants
//! - An event allocates nothing and waits for no I/O: its series was found before, or is found by a name that is borrowed.
//! - Labels are bounded: queues, outcomes and codes are fixed; routes are those of the program; after [`models::MAX_MODELS`]
//!   models, further ones count as `other`. No label has the id of a run, a user or a tenant, or text of either.
//! - Units are seconds, tokens and US dollars. The name of a counter ends with `_total`.
//! - Series with fixed labels exist from the start with 0, so that the first event is an increase.
//! - What only the servers of a cell can say ([`cells`]) is the same in each process: it is read with `max`, never with `sum`.
//!
//! # Deliberately absent
//! The listener (`api`), the reading of the database (`store`), figures of single tenants and users: those are in the database.
//!
//! # Add a metric
//! A field in the file of its subject, registered in `new` with a sentence of help; a call where the fact is, by the crate that
//! has it; a row in `deploy/README.md`. Dashboards and rules in `deploy/` may use it then: a test compares their names with a
//! running process.

pub mod cells;
pub mod http;
mod labels;
pub mod models;
pub mod runs;
pub mod sampled;
pub mod streams;
pub mod tools;
pub mod worker;

use std::fmt;

use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// All metrics of a process.
pub struct Metrics {
    /// Answered requests.
    pub http: http::Http,
    /// Event streams of clients.
    pub streams: streams::Streams,
    /// Runs and their attempts.
    pub runs: runs::Runs,
    /// Calls of tools.
    pub tools: tools::Tools,
    /// Requests to model providers.
    pub models: models::Models,
    /// Leases and webhooks of workers.
    pub worker: worker::Worker,
    /// What is read of the process when a scraper asks.
    pub sampled: sampled::Sampled,
    /// What is read of the cells when a scraper asks.
    pub cells: cells::Cells,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("houston");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The release that runs", version);
        Self {
            http: http::Http::new(&mut registry),
            streams: streams::Streams::new(&mut registry),
            runs: runs::Runs::new(&mut registry),
            tools: tools::Tools::new(&mut registry),
            models: models::Models::new(&mut registry),
            worker: worker::Worker::new(&mut registry),
            sampled: sampled::Sampled::new(&mut registry),
            cells: cells::Cells::new(&mut registry),
            registry,
        }
    }
}

impl Metrics {
    /// All metrics in the text format of Prometheus, whose content type is [`CONTENT_TYPE`].
    ///
    /// # Errors
    /// When a metric cannot be written as text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        self.worker.measure_heartbeat();
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
