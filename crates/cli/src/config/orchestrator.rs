//! The structs of `jobs/orchestrator.toml`.

use houston_domain::agent::budget::Budget;
use houston_domain::agent::limits::Limits;
use houston_domain::reach::ReachLimits;
use houston_domain::retry::DelayedRetry;
use houston_domain::task::TaskLimits;
use houston_engine::config::{ContextConfig, WatchdogConfig};
use houston_llm::{BreakerPolicy, RetryBudgetPolicy};
use houston_store::Fairness;
use houston_worker::{LeaseConfig, SweepConfig, WorkerConfig};
use serde::{Deserialize, Serialize};

/// `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Orchestrator {
    /// Limits of a run.
    pub(crate) limits: Limits,
    /// Budgets in US dollars.
    pub(crate) budget: Budget,
    /// Limits of the prompt and the history.
    pub(crate) context: ContextConfig,
    /// Limits on tasks.
    pub(crate) tasks: TaskLimits,
    /// Limits on what agents post to other conversations.
    pub(crate) reach: ReachLimits,
    /// Retries.
    pub(crate) retry: Retry,
    /// Time-outs of a model call.
    pub(crate) model: ModelTimeouts,
    /// When an attempt is aborted.
    pub(crate) watchdog: WatchdogConfig,
    /// How long to wait for Postgres at the start.
    pub(crate) startup: crate::connect::Startup,
    /// Leases of workers.
    pub(crate) lease: LeaseConfig,
    /// Intervals of the sweep and the reaper.
    pub(crate) sweep: SweepConfig,
    /// Limits per user.
    pub(crate) fairness: Fairness,
    /// Slots, connections and drain of a worker.
    pub(crate) worker: WorkerConfig,
}

/// Both tiers of retries.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// Retries within a model call.
    pub(crate) immediate: ImmediateRetry,
    /// A retry budget per provider for the immediate retries.
    pub(crate) budget: RetryBudgetPolicy,
    /// The circuit breaker of a provider.
    pub(crate) breaker: BreakerPolicy,
    /// Retries of a run, as further attempts.
    pub(crate) delayed: DelayedRetry,
}

/// Retries of a model call before its first token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImmediateRetry {
    /// Retries per call.
    pub(crate) attempts: u32,
    /// The delay before each retry, in ms.
    pub(crate) delay_ms: u64,
    /// The longest wait a provider may ask for, in ms.
    pub(crate) max_wait_ms: u64,
}

/// Time-outs of a model call, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTimeouts {
    /// Until the connection is established.
    pub(crate) connect_timeout_s: u64,
    /// Until the first byte.
    pub(crate) first_byte_timeout_s: u64,
    /// Between bytes.
    pub(crate) idle_timeout_s: u64,
    /// Until the response is complete.
    pub(crate) total_timeout_s: u64,
}
