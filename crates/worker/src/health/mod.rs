//! The health monitor: detects stuck runs, expired leases and overdue work in Postgres, repairs what it can, and
//! reports the rest as data.
//!
//! # Add a check
//! Add a file with `check`, which checks and, where possible, repairs with an idempotent sweep of
//! [`houston_store::health`]; a line in `CHECKS`; and its settings in `jobs/health_monitor.toml`.

mod agent_messages;
mod clock;
pub mod config;
mod connections;
mod dead_leases;
mod dead_letters;
mod failed_runs;
mod finished_tasks;
mod idempotency_keys;
mod kinds;
mod overdue_work;
mod paused_tasks;
mod queue_depth;
mod redis;
mod retention;
mod schema;
mod session_summaries;
mod span;
mod stale_goals;
mod stale_tasks;
mod stalled_plans;
mod stuck_runs;
mod webhook_backlogs;
mod workers;
mod zombie_runs;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use houston_domain::clock::Clock;
use houston_domain::event::{Live, LiveItem};
use houston_domain::health::{Check, HealthStatus, NOT_MADE};
use houston_queue::{DeltaBus, Hint, HintSender, Redis};
use houston_store::RunStore;
use houston_store::health::check::Finding as Found;
use houston_store::health::stuck::Stopped;
use houston_store::sweep::Due;

pub use config::MonitorConfig;
pub use kinds::Kinds;

/// Runs the health checks, inside a worker or in `houston monitor`.
pub struct Monitor {
    /// The handle to Postgres.
    pub store: RunStore,
    /// Redis; `None`: it is not checked.
    pub redis: Option<Redis>,
    /// Sends hints for work that was found.
    pub hints: HintSender,
    /// Asks workers to drop stuck runs.
    pub bus: DeltaBus,
    /// This machine's clock, compared with the database's.
    pub clock: Arc<dyn Clock>,
    /// What the checks need of the agent types.
    pub kinds: Kinds,
    /// `jobs/health_monitor.toml`.
    pub config: MonitorConfig,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    status: HealthStatus,
    detail: String,
}

impl Finding {
    fn ok(detail: impl Into<String>) -> Self {
        Self { status: HealthStatus::Ok, detail: detail.into() }
    }

    fn warn(detail: impl Into<String>) -> Self {
        Self { status: HealthStatus::Warn, detail: detail.into() }
    }

    fn red(detail: impl Into<String>) -> Self {
        Self { status: HealthStatus::Red, detail: detail.into() }
    }

    /// Ok with the text `fine` when the count is 0, otherwise a warning with the text of `otherwise`.
    fn none_or(count: usize, fine: &str, otherwise: impl FnOnce(usize) -> String) -> Self {
        if count == 0 { Self::ok(fine) } else { Self::warn(otherwise(count)) }
    }
}

type CheckFuture<'m> = BoxFuture<'m, houston_store::Result<Finding>>;
type CheckFn = for<'m> fn(&'m Monitor) -> CheckFuture<'m>;

/// All checks: the servers first, because the others need them; then those that repair; then those that count.
const CHECKS: [(&str, CheckFn); 22] = [
    ("schema", schema::check),
    ("clock", clock::check),
    ("connections", connections::check),
    ("redis", redis::check),
    ("workers", workers::check),
    ("dead_leases", dead_leases::check),
    ("zombie_runs", zombie_runs::check),
    ("stuck_runs", stuck_runs::check),
    ("paused_tasks", paused_tasks::check),
    ("stale_tasks", stale_tasks::check),
    ("stale_goals", stale_goals::check),
    ("stalled_plans", stalled_plans::check),
    ("overdue_work", overdue_work::check),
    ("session_summaries", session_summaries::check),
    ("webhook_backlogs", webhook_backlogs::check),
    ("queue_depth", queue_depth::check),
    ("dead_letters", dead_letters::check),
    ("failed_runs", failed_runs::check),
    ("finished_tasks", finished_tasks::check),
    ("idempotency_keys", idempotency_keys::check),
    ("agent_messages", agent_messages::check),
    ("retention", retention::check),
];

impl Monitor {
    /// Runs every check once, with its repairs, and stores the findings. A check that fails is red and does not stop the
    /// others.
    ///
    /// # Errors
    /// [`houston_store::Error`] when the findings cannot be stored: Postgres is unreachable, or its schema is older than this
    /// binary.
    pub async fn run_checks(&self) -> houston_store::Result<Vec<Check>> {
        let mut found = Vec::with_capacity(CHECKS.len());
        for (id, check) in CHECKS {
            let finding = match check(self).await {
                Ok(finding) => finding,
                Err(error) => Finding::red(format!("{NOT_MADE}: {error}")),
            };
            match finding.status {
                HealthStatus::Ok => tracing::debug!(check = id, detail = finding.detail, "checked"),
                _ => tracing::warn!(
                    check = id,
                    status = finding.status.as_str(),
                    detail = finding.detail,
                    "the health monitor found something"
                ),
            }
            found.push(Found { id: id.to_owned(), status: finding.status, detail: finding.detail });
        }
        self.store.record_checks(&found, self.config.tick.lasting()).await
    }

    /// Runs a sweep batch by batch until it finds no more, or up to `tick.batches` batches.
    async fn sweep<T, F>(&self, batch: impl Fn(i64) -> F) -> houston_store::Result<Vec<T>>
    where
        F: Future<Output = houston_store::Result<Vec<T>>>,
    {
        let mut all = Vec::new();
        for _ in 0..self.config.tick.batches {
            let some = batch(self.config.tick.batch).await?;
            let full = i64::try_from(some.len()).is_ok_and(|count| count >= self.config.tick.batch);
            all.extend(some);
            if !full {
                break;
            }
        }
        Ok(all)
    }

    /// Sends hints for agentables that a sweep has released or found. The workers' own sweep would find them as well.
    fn send_hints<'d>(&self, due: impl IntoIterator<Item = &'d Due>) {
        for one in due {
            self.hints.send(self.kinds.lane(&one.kind), Hint::run(one.agentable));
        }
    }

    /// Asks the worker that drives a run to drop it, and sends a hint so that another one ends it.
    fn drop_stuck(&self, stopped: &[Stopped]) {
        for one in stopped {
            let live = Live::CancelRequested(one.run);
            self.bus.publish_control(LiveItem { agentable: one.agentable, live });
            self.hints.send(self.kinds.lane(&one.kind), Hint::run(one.agentable));
        }
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("config", &self.config).finish_non_exhaustive()
    }
}
