//! The worker: consumes hints, keeps its lease, sweeps, reaps dead workers, archives sessions, monitors the
//! installation's health, drains.
//!
//! # Invariants
//! - The lease is renewed from an OS thread with its own connection. When `trust_s` has passed since the last renewal, by
//!   the boot-time clock, runs are dropped. After losing its lease the process continues under a new worker id.
//! - Only deaths of workers count towards giving up a message. A worker that releases a run, or finds out that it was taken
//!   for dead, removes itself from the count. Runs with which two workers died are driven one at a time; one with which three
//!   died, in a process of its own, whose death is what it is given up for.
//! - A run that is started when its message is posted in the same process ([`houston_store::direct_start`]) takes a slot like
//!   one that a hint starts, and is drained like it.
//! - A hint says "look at this agentable", never "do exactly this": a duplicate, a late or a lost one changes
//!   nothing but the time.
//! - A cancel request arrives over the bus, over `NOTIFY`, or at the latest when the reaper reads Postgres.
//! - Failures of Redis or Postgres do not end the worker. If its consumer ends for another reason, the process exits.
//! - After SIGTERM it takes no more hints, hands over what can be repeated within 2 s, and lets tools that cannot
//!   be repeated finish within the drain time.
//! - A session is closed by one worker and summarised by one worker; interrupted work continues on another.
//! - A due feed or check-in starts once, whatever workers die. A trigger fires once for each time and event.
//! - Each event is delivered to the webhooks that want it at least once, with the same id; what is being sent when the process
//!   stops may end within the drain time.
//! - The health monitor is idempotent: it may run concurrently and may be interrupted anywhere.
//!
//! # Deliberately absent
//! HTTP (API and worker share only tables, hints and direct starts, both through `store`), the agent loop (`engine`), retries (rows in Postgres).
//!
//! # Add a periodic job
//! Add to `jobs.rs` a line of `JOBS` and its function, which takes no input, derives its work from the state in Postgres, does
//! a batch of it and says with `Again` whether there is more (`Later`: no). It must be idempotent on any number of workers;
//! `Who::One` saves work, but does not exclude that two run it. Its name completes "the … failed"; that of a `Who::One` is
//! also its row in `cron_ticks`: snake_case, and kept for good. It usually runs `When::Every`, and when a worker starts. Its
//! queries are methods of `RunStore`, called on `jobs.worker.background`: connections that nobody waits for. One that takes
//! long watches `Jobs::stop`. Waiting, stopping, and the log of failures are the runner's. A period that operators may change
//! is a setting in `jobs/*.toml`, read by the line; others are a constant beside it. What it changes has a test in `tests/it`.
//!
//! # Add a health check
//! See [`health`].

pub mod config;
mod drive;
pub mod health;
mod jobs;
mod lease;
mod listen;
mod reaper;
mod start;
mod titles;
mod trial;
mod webhooks;
mod worker;

pub use config::{LeaseConfig, SweepConfig, TriggersConfig, WebhooksConfig, WorkerConfig};
pub use health::{Kinds, Monitor, MonitorConfig};
pub use lease::LeaseThread;
pub use start::{Error, Running};
pub use worker::{Tried, TryAlone, Webhooks, Worker};
