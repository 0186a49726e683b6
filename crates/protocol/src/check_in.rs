//! Check-ins: times at which an agent is woken.

use serde::{Deserialize, Serialize};

/// Creates a check-in: `{"in_minutes": 30, "reason": "Ask whether the tickets arrived"}`. Exactly one of `at`
/// and `in_minutes` is required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateCheckIn {
    /// A time in the user's time zone, as in `2026-11-23T09:00`, or with an offset, as in
    /// `2026-11-23T09:00:00Z`.
    pub at: Option<String>,
    /// Minutes from now.
    pub in_minutes: Option<u32>,
    /// What to do then; the agent reads it.
    pub reason: String,
}
