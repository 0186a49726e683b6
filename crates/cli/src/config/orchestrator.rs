//! What the file about runs and workers says.

use houston_domain::agent::budget::Budget;
use houston_domain::agent::limits::Limits;
use houston_domain::retry::DelayedRetry;
use houston_domain::task::TaskLimits;
use houston_engine::config::{ContextConfig, WatchdogConfig};
use houston_llm::{BreakerPolicy, BudgetPolicy};
use houston_store::Fairness;
use houston_worker::{LeaseConfig, SweepConfig, WorkerConfig};
use serde::{Deserialize, Serialize};

/// `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Orchestrator {
    /// The bounds of a run.
    pub(crate) limits: Limits,
    /// What may be spent.
    pub(crate) budget: Budget,
    /// What enters prompt and history.
    pub(crate) context: ContextConfig,
    /// How many tasks there may be.
    pub(crate) tasks: TaskLimits,
    /// Both tiers.
    pub(crate) retry: Retry,
    /// Time-outs of a model call.
    pub(crate) model: ModelTimeouts,
    /// What cuts an attempt off.
    pub(crate) watchdog: WatchdogConfig,
    /// Waiting for Postgres at the start.
    pub(crate) startup: crate::connect::Startup,
    /// The lease of a worker.
    pub(crate) lease: LeaseConfig,
    /// How often Postgres is searched.
    pub(crate) sweep: SweepConfig,
    /// What one user may take from the others.
    pub(crate) fairness: Fairness,
    /// What one worker takes.
    pub(crate) worker: WorkerConfig,
}

/// Both tiers of retries.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// Within a model call.
    pub(crate) immediate: ImmediateRetry,
    /// How many of the former a provider gets.
    pub(crate) budget: BudgetPolicy,
    /// When a model is not asked at all.
    pub(crate) breaker: BreakerPolicy,
    /// Across attempts of a run.
    pub(crate) delayed: DelayedRetry,
}

/// Retries of a model call before its first token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImmediateRetry {
    /// How many.
    pub(crate) attempts: u32,
    /// The pause before each, in ms.
    pub(crate) delay_ms: u64,
    /// The longest wait a provider may ask for, in ms.
    pub(crate) max_wait_ms: u64,
}

/// Time-outs of a model call, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTimeouts {
    /// Until the connection stands.
    pub(crate) connect_timeout_s: u64,
    /// Until the first byte.
    pub(crate) first_byte_timeout_s: u64,
    /// Between bytes.
    pub(crate) idle_timeout_s: u64,
    /// Until the answer is complete.
    pub(crate) total_timeout_s: u64,
}
