//! What the health of the installation explains. A failed check holds nothing up by itself: it says why something that does
//! takes long.

use chrono::{DateTime, Utc};

use super::{Cause, Reason};
use crate::health::{Check, HealthStatus};

/// Seconds for which Redis is away before it is named: a connection that is made anew takes less.
const REDIS_S: i64 = 5;
/// The check that says whether Redis is reachable.
const REDIS: &str = "redis";

/// The health of the installation: results of checks, and what the process that is asked sees itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthFacts {
    /// The checks that found something, if their results are new enough.
    pub failing: Vec<Check>,
    /// When the checks were made last, if that is too long ago.
    pub silent_since: Option<DateTime<Utc>>,
    /// Since when the process that is asked does not reach Redis.
    pub redis_down_since: Option<DateTime<Utc>>,
}

/// A check, and the causes that it explains.
struct Explanation {
    check: &'static str,
    /// How bad its result is at least.
    least: HealthStatus,
    causes: &'static [Cause],
    text: &'static str,
    todo: &'static str,
}

/// One row for each check that explains a cause. What passes within seconds is left out where it is usual.
const EXPLANATIONS: [Explanation; 5] = [
    Explanation {
        check: "schema",
        least: HealthStatus::Red,
        // Workers that live have checked it when they started.
        causes: &[Cause::NoWorker, Cause::Draining],
        text: "The schema of Postgres is not that of this release: no worker of it starts.",
        todo: "`houston migrate`.",
    },
    Explanation {
        check: "connections",
        least: HealthStatus::Red,
        causes: &[Cause::SlotsFull, Cause::HolderDead, Cause::NoWorker, Cause::Draining],
        text: "Almost all connections of Postgres are in use: a worker may wait for one.",
        todo: "Raise max_connections of Postgres, or lower `worker.database_connections`.",
    },
    Explanation {
        check: "dead_leases",
        least: HealthStatus::Red,
        causes: &[Cause::HolderDead],
        text: "The health monitor found leases of dead workers that no living worker had released.",
        todo: "`houston monitor --now` releases them; read the logs of the workers that live.",
    },
    Explanation {
        check: "overdue_work",
        least: HealthStatus::Red,
        causes: &[Cause::SlotsFull],
        text: "The health monitor found work that waits for long: there are too few slots, or workers do not take what waits.",
        todo: "See whether slots are free (`houston workers`): start more workers if not, else read the logs of those that live.",
    },
    Explanation {
        check: "failed_runs",
        least: HealthStatus::Warn,
        // Not of a run that failed: that may be long ago.
        causes: &[Cause::Retry, Cause::BreakerOpen],
        text: "Many of the latest runs of the installation failed, too.",
        todo: "`houston monitor` says how many, and *Errors* in the console groups them by their cause.",
    },
];

/// Causes that a health monitor mends or reports, if one works.
const MONITORED: &[Cause] = &[Cause::Forgotten, Cause::HolderDead, Cause::SlotsFull];

impl HealthFacts {
    /// Forgets that the monitor did not reach Redis: the process that is asked has reached it since.
    pub fn forget_redis(&mut self) {
        self.failing.retain(|check| check.id != REDIS);
    }

    /// Whether hints are not delivered at the moment.
    pub(super) fn redis_is_away(&self, now: DateTime<Utc>) -> bool {
        let checked = self.failing.iter().find(|check| check.id == REDIS).map(|check| check.since);
        self.redis_down_since.or(checked).is_some_and(|since| (now - since).num_seconds() >= REDIS_S)
    }

    /// What explains the reasons that were `found`.
    pub(super) fn reasons(&self, found: &[Reason]) -> Vec<Reason> {
        let holds = |causes: &[Cause]| found.iter().any(|reason| causes.contains(&reason.cause));
        let failed = |id: &str, least: HealthStatus| {
            self.failing.iter().any(|check| check.id == id && check.status >= least)
        };
        let mut reasons: Vec<Reason> = EXPLANATIONS
            .iter()
            .filter(|of| holds(of.causes) && failed(of.check, of.least))
            .map(|of| Reason::new(Cause::Health, of.text, Some(of.todo)))
            .collect();
        if let Some(since) = self.silent_since.filter(|_| holds(MONITORED)) {
            let since = since.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            let text = format!("The health monitor has not run since {since}: what it mends stays as it is.");
            let todo = "`houston monitor --now` runs it; the workers should, so read their logs.";
            reasons.push(Reason::new(Cause::Health, text, Some(todo)));
        }
        reasons
    }
}
