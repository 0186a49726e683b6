//! What a [`Worker`] is made of; [`crate::start`] runs it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_domain::death::Shown;
use houston_domain::id::{AgentableId, Ids, ProcessId, WorkerId};
use houston_domain::schedule::Schedules;
use houston_domain::sealed::SecretKeys;
use houston_engine::Engine;
use houston_metrics::Metrics;
use houston_queue::{DeltaBus, HintSender, Redis, Slots};
use houston_store::RunStore;
use houston_store::copies::Copies;
use houston_store::lease::WorkerDescription;
use houston_web::Sinks;
use tokio_util::sync::CancellationToken;

use crate::config::{LeaseConfig, SweepConfig, TriggersConfig, WebhooksConfig, WorkerConfig};
use crate::health::MonitorConfig;

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

/// What webhooks need besides the store.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// `jobs/webhooks.toml`.
    pub config: WebhooksConfig,
    /// Sends to the addresses of tenants.
    pub sinks: Arc<Sinks>,
    /// Opens the secrets that sign; without, nothing can be sent.
    pub keys: Option<SecretKeys>,
    /// Between the cells, if there are several: a receiver that is gone is gone for all.
    pub copies: Option<Copies>,
}

/// What a process has shown that drove a run alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Whether it lives.
    pub shown: Shown,
    /// How the process ended, in words.
    pub how: String,
    /// The worker that it was, if it began.
    pub worker: Option<WorkerId>,
}

/// Drives a run in a process of its own, until the run rests or the token asks the process to hand it over.
pub type TryAlone = Arc<dyn Fn(AgentableId, CancellationToken) -> BoxFuture<'static, Tried> + Send + Sync>;
