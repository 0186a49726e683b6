//! How far a user has read, on whichever device, and what is unread.

use houston_domain::id::{MessageId, UserId};
use houston_domain::read_mark::ReadMark;
use serde::{Deserialize, Serialize};

/// Says up to where the user has read a thread: `{"message_id": "msg_0190…"}` or `{"seq": 9}`; neither: to its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MarkRead {
    /// A message of the thread.
    pub message_id: Option<MessageId>,
    /// A position of its event stream, from 0.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub seq: Option<i64>,
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
    pub threads: Vec<ReadMark>,
    /// Whether the user has more than 200 threads: the older ones are not counted.
    pub has_more: bool,
}
