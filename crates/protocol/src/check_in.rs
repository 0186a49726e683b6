//! Check-ins: times at which an agent is woken.

use houston_domain::id::CheckInId;
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::time::Time;

/// A check-in.
///
/// ```json
/// {"id": "check_in_0190…", "goal_id": "goal_0190…", "reason": "Ask whether the tickets arrived",
///  "due_at": "2026-11-23T09:00:00.000Z", "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckInResponse {
    pub id: CheckInId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
    /// What to do then; the agent reads it.
    pub reason: String,
    /// When the agent is woken.
    pub due_at: Time,
    pub created_at: Time,
}

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
