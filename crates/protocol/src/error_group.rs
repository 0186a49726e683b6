//! Failed runs, grouped by their cause.

use houston_domain::id::RunId;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The groups, the largest first: `{"data": [{"fingerprint": "8c1f…", …}], "window_h": 24, "capped": false}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroupsResponse {
    pub data: Vec<ErrorGroupResponse>,
    /// Hours for which failed runs were looked at.
    pub window_h: u32,
    /// Whether there are more failed runs than were read: the latest 10,000.
    pub capped: bool,
}

/// Runs that failed for the same cause, as far as the text says: numbers, ids and quoted texts are `#` in it.
///
/// ```json
/// {"fingerprint": "8c1f06d2b1a94e77", "code": "RATE_LIMITED", "message": "openai: slow down (HTTP #)", "count": 12,
///  "dead_lettered": 0, "retrying": 3, "first_seen": "2026-11-22T09:00:00.000Z", "last_seen": "2026-11-22T09:10:00.000Z",
///  "sample_run_id": "run_0190…"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroupResponse {
    /// Names the group: the same code and message have the same fingerprint.
    pub fingerprint: String,
    /// The error code.
    pub code: String,
    pub message: String,
    /// Number of runs.
    pub count: u64,
    /// How many of them were given up because their workers died.
    pub dead_lettered: u64,
    /// How many of them wait for another attempt.
    pub retrying: u64,
    pub first_seen: Time,
    pub last_seen: Time,
    /// The latest of the runs.
    pub sample_run_id: RunId,
}
