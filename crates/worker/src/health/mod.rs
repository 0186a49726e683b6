//! The health monitor: detects stuck runs, expired leases and overdue work in Postgres, repairs what it can, and
//! reports the rest as data.
//!
//! # Add a check
//! Add a function to the file of its subject, or a new file if none fits, and a line to `CHECKS`. What it asks Postgres is a
//! method of `RunStore` in `store/src/health/`: a repair is an idempotent sweep, a check reads a bounded number of rows, because
//! it runs every few minutes; then `cargo xtask prepare`. A setting is a field of the struct in the check's file and a line of
//! `jobs/health_monitor.toml`; a new section is also a field of [`MonitorConfig`]. Only operators see the text of a finding,
//! so it may name tenants. A test is in `tests/it/health.rs`, or `sweeps.rs` if it repairs. If it explains why something waits,
//! add a row to `EXPLANATIONS` of `houston_domain::why`.

pub mod config;
mod deletion;
mod outcomes;
mod runs;
mod servers;
mod waiting;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use futures_util::future::BoxFuture;
use houston_domain::agentable::{AgentType, Urgency};
use houston_domain::clock::Clock;
use houston_domain::event::{Live, LiveItem};
use houston_domain::health::{Check, HealthStatus, NOT_MADE};
use houston_engine::Engine;
use houston_queue::{DeltaBus, Hint, HintSender, Lane, Redis};
use houston_store::RunStore;
use houston_store::health::run::Stopped;
use houston_store::paused_lane::LaneServices;
use houston_store::sweep::Due;

pub use self::config::MonitorConfig;

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

type Checked = houston_store::Result<Finding>;
type CheckFn = for<'m> fn(&'m Monitor) -> BoxFuture<'m, Checked>;

/// All checks: the servers first, because the others need them; then those that repair; then those that count.
const CHECKS: &[(&str, CheckFn)] = &[
    ("schema", |monitor| Box::pin(servers::schema(monitor))),
    ("clock", |monitor| Box::pin(servers::clock(monitor))),
    ("connections", |monitor| Box::pin(servers::connections(monitor))),
    ("redis", |monitor| Box::pin(servers::redis(monitor))),
    ("workers", |monitor| Box::pin(servers::workers(monitor))),
    ("dead_leases", |monitor| Box::pin(servers::dead_leases(monitor))),
    ("zombie_runs", |monitor| Box::pin(runs::zombie_runs(monitor))),
    ("stuck_runs", |monitor| Box::pin(runs::stuck_runs(monitor))),
    ("paused_tasks", |monitor| Box::pin(runs::paused_tasks(monitor))),
    ("stale_tasks", |monitor| Box::pin(runs::stale_tasks(monitor))),
    ("stale_goals", |monitor| Box::pin(runs::stale_goals(monitor))),
    ("stalled_plans", |monitor| Box::pin(runs::stalled_plans(monitor))),
    ("overdue_work", |monitor| Box::pin(waiting::overdue_work(monitor))),
    ("session_summaries", |monitor| Box::pin(waiting::session_summaries(monitor))),
    ("webhook_backlogs", |monitor| Box::pin(waiting::webhook_backlogs(monitor))),
    ("queue_depth", |monitor| Box::pin(waiting::queue_depth(monitor))),
    ("dead_letters", |monitor| Box::pin(outcomes::dead_letters(monitor))),
    ("failed_runs", |monitor| Box::pin(outcomes::failed_runs(monitor))),
    ("finished_tasks", |monitor| Box::pin(deletion::finished_tasks(monitor))),
    ("idempotency_keys", |monitor| Box::pin(deletion::idempotency_keys(monitor))),
    ("agent_messages", |monitor| Box::pin(deletion::agent_messages(monitor))),
    ("retention", |monitor| Box::pin(deletion::retention(monitor))),
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
            let checked = check(self).await;
            let Finding { status, detail } =
                checked.unwrap_or_else(|error| Finding::red(format!("{NOT_MADE}: {error}")));
            match status {
                HealthStatus::Ok => tracing::debug!(check = id, detail, "checked"),
                _ => tracing::warn!(
                    check = id,
                    status = status.as_str(),
                    detail,
                    "the health monitor found something"
                ),
            }
            found.push(Check { id: (*id).to_owned(), status, detail, since: DateTime::default() });
        }
        self.store.record_checks(&mut found, self.config.tick.lasting()).await?;
        Ok(found)
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

    /// Runs `batch` until it changes fewer rows than `most`, or `tick.batches` times. Returns how many it has changed.
    async fn repeat<F>(&self, most: i64, batch: impl Fn(i64) -> F) -> houston_store::Result<u64>
    where
        F: Future<Output = houston_store::Result<u64>>,
    {
        let mut all = 0;
        for _ in 0..self.config.tick.batches {
            let some = batch(most).await?;
            all += some;
            if some < most.unsigned_abs() {
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

/// What the monitor needs of the agent types: their urgency and time limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds {
    urgencies: BTreeMap<String, Urgency>,
    /// Kinds that are not conversational.
    tasks: Vec<String>,
    /// The longest time limit of an attempt, in seconds.
    longest_s: u64,
}

impl Kinds {
    /// From agent types and the seconds an attempt may take (limit and the watchdog's grace).
    pub fn of<'t>(types: impl IntoIterator<Item = (&'t AgentType, u64)>) -> Self {
        let mut kinds = Self::default();
        for (agent_type, most_s) in types {
            kinds.urgencies.insert(agent_type.kind.clone(), agent_type.urgency);
            kinds.longest_s = kinds.longest_s.max(most_s);
            if !agent_type.conversational {
                kinds.tasks.push(agent_type.kind.clone());
            }
        }
        kinds
    }

    /// From the agent types of an engine.
    pub(crate) fn of_engine(engine: &Engine) -> Self {
        let grace_s = engine.watchdog().grace_s;
        let types = engine.setups();
        Self::of(types.map(|setup| (&setup.agent_type, setup.policy.limits.max_duration_s + grace_s)))
    }

    /// The kinds that do not chat, or those that do, of lanes that were served for the last `time`.
    fn served(&self, are_tasks: bool, lanes: &LaneServices, time: Duration) -> Vec<String> {
        let time = TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        let is_wanted = |kind: &&String| {
            self.tasks.contains(kind) == are_tasks && lanes.of(self.lane(kind).as_str()).was_served_for(time)
        };
        self.urgencies.keys().filter(is_wanted).cloned().collect()
    }

    /// The kinds that chat and those that no file declares, of lanes that were served for the last `time`: these kinds, or if
    /// the answer is `true` all but these.
    fn served_or_unknown(&self, lanes: &LaneServices, time: Duration) -> (Vec<String>, bool) {
        let served = self.served(false, lanes, time);
        // Unknown kinds are in this lane.
        let others = lanes.of(Lane::Interactive.as_str());
        if TimeDelta::from_std(time).is_ok_and(|time| others.was_served_for(time)) {
            (self.urgencies.keys().filter(|kind| !served.contains(kind)).cloned().collect(), true)
        } else {
            (served, false)
        }
    }

    /// The lane for hints of an agentable of this kind.
    pub(crate) fn lane(&self, kind: &str) -> Lane {
        self.urgencies.get(kind).copied().unwrap_or_default().into()
    }
}

/// Seconds, displayed in the two largest units: `45 s`, `3 min`, `2 h 5 min`, `15 d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours, minutes, seconds) =
            (self.0 / 86_400, self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        let parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")];
        let largest = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
        let (count, unit) = parts[largest];
        write!(f, "{count} {unit}")?;
        match parts.get(largest + 1) {
            Some((count, unit)) if *count > 0 => write!(f, " {count} {unit}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_two_units_at_most() {
        for (seconds, text) in [
            (0, "0 s"),
            (45, "45 s"),
            (180, "3 min"),
            (200, "3 min 20 s"),
            (7500, "2 h 5 min"),
            (3601, "1 h"),
            (86_400, "1 d"),
            (1_296_000, "15 d"),
            (180_000, "2 d 2 h"),
        ] {
            assert_eq!(Span(seconds).to_string(), text);
        }
    }
}
