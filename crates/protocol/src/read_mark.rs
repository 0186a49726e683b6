//! How far a user has read, on whichever device, and what is unread.

use houston_domain::id::{MessageId, UserId};
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::time::Time;

/// Says up to where the user has read a thread: `{"message_id": "msg_0190…"}` or `{"seq": 9}`; neither: to its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MarkRead {
    /// A message of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// A position of its event stream, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub seq: Option<i64>,
}

/// How far a thread was read.
///
/// ```json
/// {"goal_id": "goal_0190…", "last_seq": 12, "read_seq": 9, "unread": 1, "read_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadMarkResponse {
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
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

/// What a user has not read.
///
/// ```json
/// {"user_id": "user_0190…", "unread": 3, "threads": [{"goal_id": "goal_0190…", "unread": 3, …}], "has_more": false}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnreadResponse {
    pub user_id: UserId,
    /// The sum over `threads`.
    pub unread: i64,
    /// The threads with something unread, newest first, among the newest 200 of the user.
    pub threads: Vec<ReadMarkResponse>,
    /// Whether the user has more than 200 threads: the older ones are not counted.
    pub has_more: bool,
}
