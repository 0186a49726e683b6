//! How far a user has read a thread.

use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::time::Time;

/// How far a thread was read.
///
/// ```json
/// {"goal_id": "goal_0190…", "last_seq": 12, "read_seq": 9, "unread": 1, "read_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReadMarkResponse))]
pub struct ReadMark {
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub owner: Owner,
    /// The position of its newest event.
    pub last_seq: i64,
    /// Messages up to this position were read.
    pub read_seq: i64,
    /// Unread texts of agents and errors among its newest 100 messages.
    pub unread: i64,
    /// When it was marked last; null: never.
    pub read_at: Option<Time>,
}
