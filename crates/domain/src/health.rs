//! The health of an installation, as data: one [`Check`] for each problem the health monitor looks for.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::time::Time;

names! {
    /// The severity of a check, in ascending order.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum HealthStatus {
        /// No problem.
        Ok = "ok",
        /// A person should look at it, but it is not urgent.
        Warn = "warn",
        /// It does not work and does not repair itself.
        Red = "red",
    }
}

/// What the detail of a check begins with that could not be made: it is red, but nobody knows whether what it looks for is so.
pub const NOT_MADE: &str = "could not be checked";

/// The latest result of one check.
///
/// ```json
/// {"id": "stuck_runs", "status": "warn", "detail": "1 run was cancelled: …", "since": "2026-11-20T10:00:00Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The name of the check, as in `stuck_runs`.
    pub id: String,
    /// The severity.
    pub status: HealthStatus,
    /// What was found, what was repaired, and what is left to do, for people.
    pub detail: String,
    /// Since when the check has this status.
    pub since: DateTime<Utc>,
}

/// The highest severity of `checks`; [`HealthStatus::Ok`] when there are none.
pub fn worst(checks: &[Check]) -> HealthStatus {
    checks.iter().map(|check| check.status).max().unwrap_or(HealthStatus::Ok)
}

/// A check of the health monitor had another status than before, or its first.
///
/// ```json
/// {"check": "stuck_runs", "cell": null, "status": "warn", "at": "2026-11-20T10:00:00.000Z", "detail": null}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HealthChangeResponse))]
pub struct HealthChange {
    /// The name of the check, as in `stuck_runs`.
    pub check: String,
    /// The name of the cell that was checked, as in `0000-7fff`; null if there is only one.
    pub cell: Option<String>,
    /// The status from then on.
    pub status: HealthStatus,
    pub at: Time,
    /// What was found. It is about all tenants: null for keys without the scope `installation`.
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_status_wins_and_unknown_ones_are_red() {
        let check =
            |status| Check { id: "x".to_owned(), status, detail: String::new(), since: DateTime::UNIX_EPOCH };
        assert_eq!(worst(&[]), HealthStatus::Ok);
        let found = [check(HealthStatus::Warn), check(HealthStatus::Red), check(HealthStatus::Ok)];
        assert_eq!(worst(&found), HealthStatus::Red);
        assert_eq!(HealthStatus::from_name("purple"), None);
        for status in [HealthStatus::Ok, HealthStatus::Warn, HealthStatus::Red] {
            assert_eq!(HealthStatus::from_name(status.as_str()), Some(status));
        }
    }
}
