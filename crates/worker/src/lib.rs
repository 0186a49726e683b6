//! The worker: consumes hints, keeps its lease, sweeps, reaps dead workers, archives sessions, monitors the
//! installation's health, drains.
//!
//! # Invariants
//! - The lease is renewed from an OS thread with a connection of its own. Past its trust, by the boot-time clock,
//!   runs are dropped; after a loss the process goes on under a fresh id.
//! - Only workers that really died count towards giving up a message: a worker that releases a run, or was taken for
//!   dead and finds out, removes itself from the count. Runs that may have killed two workers are driven one at a time.
//! - A hint says "look at this agentable", never "do exactly this": a duplicate, a late or a lost one changes
//!   nothing but the time.
//! - A cancel request arrives over the bus, over `NOTIFY`, or at the latest when the reaper reads Postgres.
//! - No failure of Redis or Postgres ends the worker; if its consumer ends all the same, the process exits.
//! - After SIGTERM it takes no more hints, hands over what can be repeated within 2 s, and lets tools that cannot
//!   be repeated finish within the drain time.
//! - A session is closed by one worker however many look, and summarised by one; what is interrupted
//!   continues on another worker.
//! - A feed or check-in that is due begins once, over all workers and their deaths.
//! - The health monitor may run any number of times at once and may be interrupted anywhere; the result is the same.
//!
//! # Deliberately absent
//! HTTP (the API never meets the worker), the loop itself (`engine`), retries (rows in Postgres).
//!
//! # Add a periodic job
//! A file here with a `run(…, stop)` that reconciles from state and takes no input, idempotent on any number of
//! workers; a line in [`Worker::start`]; its numbers in `jobs/*.toml`. One on a schedule: a tick in `cron`.
//!
//! # Add a health check
//! See [`health`].

mod archive;
pub mod config;
mod cron;
mod erase;
pub mod health;
mod lease;
mod listen;
mod reaper;
mod schedule;
mod sweep;
mod titles;
mod worker;

pub use config::{LeaseConfig, SweepConfig, WorkerConfig};
pub use health::{Kinds, Monitor, MonitorConfig};
pub use worker::{Error, Running, Worker};
