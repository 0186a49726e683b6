//! What an operator sees first.

use houston_domain::ended::EndedInHour;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// The state of the installation, or of a tenant, in a few numbers.
///
/// ```json
/// {"of": "installation", "queued": 12, "busy": 40, "slots": 64, "oldest_age_s": 3, "retrying": 2, "put_off": 0, "waiting": 1,
///  "workers": {"alive": 2, "draining": 0}, "failed": 3, "dead_lettered": 0, "cost_last_hour": "1.25", "capped": false,
///  "hours": [{"hour": "2026-11-22T09:00:00.000Z", "finished": 90, "failed": 1, "dead_lettered": 0, "cancelled": 2, "stopped": 0}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverviewResponse {
    /// Whose numbers these are: `installation` for keys with that scope, unless those of the tenant were asked for; else `tenant`.
    pub of: String,
    /// Agentables that could be claimed now.
    pub queued: i64,
    /// Runs that workers hold.
    pub busy: i64,
    /// Runs that the workers can drive at once; null in those of a tenant.
    pub slots: Option<i64>,
    /// Seconds for which the oldest of the queued has waited; 0 if there is none.
    pub oldest_age_s: i64,
    /// Agentables whose next attempt is due later, after a failure.
    pub retrying: i64,
    /// Agentables that wait because the tokens of their user are used up.
    pub put_off: i64,
    /// Agentables that wait for an answer of a person.
    pub waiting: i64,
    /// Null in those of a tenant.
    pub workers: Option<WorkerCounts>,
    /// Runs that failed within 24 hours.
    pub failed: i64,
    /// Runs that were given up within 24 hours, because their workers died.
    pub dead_lettered: i64,
    /// Cost of the runs that ended within the last hour, in US dollars.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Decimal))]
    pub cost_last_hour: Decimal,
    /// Whether there is more than was counted: at most 20,000 waiting agentables and 100,000 ended runs are.
    pub capped: bool,
    /// The last 24 hours in which runs ended, the oldest first; hours without any are left out.
    pub hours: Vec<EndedInHour>,
}

/// The workers: `{"alive": 2, "draining": 0}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerCounts {
    /// Those that claim runs.
    pub alive: i64,
    /// Those that claim nothing new, and end.
    pub draining: i64,
}
