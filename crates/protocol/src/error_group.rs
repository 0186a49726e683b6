//! Failed runs, grouped by their cause.

use houston_domain::error_group::ErrorGroup;
use serde::{Deserialize, Serialize};

/// The groups, the largest first: `{"data": [{"fingerprint": "8c1f…", …}], "window_h": 24, "capped": false}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroupsResponse {
    pub data: Vec<ErrorGroup>,
    /// Hours for which failed runs were looked at.
    pub window_h: u32,
    /// Whether there are more failed runs than were read: the latest 10,000.
    pub capped: bool,
}
