//! The health of an installation, as data: one [`Check`] for each thing that can be wrong.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// How bad it is. The order is the severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// As it should be.
    Ok,
    /// Somebody should look at it, in daylight.
    Warn,
    /// It does not work, and does not mend itself.
    Red,
}

impl HealthStatus {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Red => "red",
        }
    }

    /// Parses the name. One that a newer release wrote reads as red: nobody here can vouch for it.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "ok" => Self::Ok,
            "warn" => Self::Warn,
            _ => Self::Red,
        }
    }
}

/// What one check found when it last looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, as in `stuck_runs`.
    pub id: String,
    /// How bad it is.
    pub status: HealthStatus,
    /// What was found, what was done about it, and what is left to do, for a person.
    pub detail: String,
    /// Since when the status is this one.
    pub since: DateTime<Utc>,
}

/// The worst of some checks; ok when there are none.
#[must_use]
pub fn worst(checks: &[Check]) -> HealthStatus {
    checks.iter().map(|check| check.status).max().unwrap_or(HealthStatus::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_red_is_enough_and_an_unknown_status_is_red() {
        let check =
            |status| Check { id: "x".to_owned(), status, detail: String::new(), since: DateTime::UNIX_EPOCH };
        assert_eq!(worst(&[]), HealthStatus::Ok);
        let found = [check(HealthStatus::Warn), check(HealthStatus::Red), check(HealthStatus::Ok)];
        assert_eq!(worst(&found), HealthStatus::Red);
        assert_eq!(HealthStatus::from_name("purple"), HealthStatus::Red);
        for status in [HealthStatus::Ok, HealthStatus::Warn, HealthStatus::Red] {
            assert_eq!(HealthStatus::from_name(status.as_str()), status);
        }
    }
}
