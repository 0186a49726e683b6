//! What a [`Worker`] is made of; [`crate::start`] runs it.

use std::sync::Arc;

use houston_domain::id::{Ids, ProcessId};
use houston_domain::schedule::Schedules;
use houston_engine::Engine;
use houston_metrics::Metrics;
use houston_queue::{DeltaBus, HintSender, Redis, Slots};
use houston_store::RunStore;
use houston_store::lease::WorkerDescription;

use crate::config::{LeaseConfig, SweepConfig, TriggersConfig, WorkerConfig};
use crate::health::MonitorConfig;
use crate::trial::TryAlone;
use crate::webhooks::Webhooks;

/// What [`Worker::start`] needs.
pub struct Worker {
    /// Drives runs.
    pub engine: Arc<Engine>,
    /// The handle to Postgres.
    pub store: RunStore,
    /// The same for what nobody waits for, with connections of its own.
    pub background: RunStore,
    /// Connection URL of Postgres, for the connection of the lease.
    pub database_url: String,
    /// Redis, if there is one.
    pub redis: Option<Redis>,
    /// Sends hints to all workers.
    pub hints: HintSender,
    /// Receives requests for transcripts and cancellations.
    pub bus: DeltaBus,
    /// Generates ids, and has the clock.
    pub ids: Arc<Ids>,
    /// Counts leases and deliveries to webhooks.
    pub metrics: Arc<Metrics>,
    /// The process. Its workers, one for each cell, die together.
    pub process: ProcessId,
    /// How it introduces itself to operators. Its slots are those of [`Self::slots`].
    pub description: WorkerDescription,
    /// `[lease]` of `jobs/orchestrator.toml`.
    pub lease: LeaseConfig,
    /// `[sweep]` of `jobs/orchestrator.toml`.
    pub sweep: SweepConfig,
    /// `[worker]` of `jobs/orchestrator.toml`: the drain time.
    pub worker: WorkerConfig,
    /// Its slots. The workers of one process, one for each cell, share them.
    pub slots: Slots,
    /// `jobs/health_monitor.toml`.
    pub monitor: MonitorConfig,
    /// `jobs/feed_generation.toml` and `jobs/agent_check_in.toml`.
    pub schedules: Schedules,
    /// `jobs/webhooks.toml`.
    pub webhooks: Webhooks,
    /// `jobs/triggers.toml`.
    pub triggers: TriggersConfig,
    /// Tries runs in processes of their own, if the engine leaves them to it.
    pub alone: Option<TryAlone>,
}
