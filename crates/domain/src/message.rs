//! Thread messages: what the user sees; and whether a system message, which Houston itself posts to an agent, is posted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{MessageId, RunId};
use crate::owner::Owner;
use crate::time::Time;

names! {
    /// The author of a thread message.
    pub enum Source {
        /// The user.
        User = "user",
        /// The agent.
        Agent = "agent",
        /// Houston, reporting a failure.
        Error = "error",
        /// Houston, informing the agent: a task has ended, a check-in is due.
        System = "system",
    }
}

names! {
    /// Whether a thread message is text or a tool cell.
    pub enum MessageType {
        /// A text message.
        Text = "text",
        /// A tool cell: it displays a tool call. The `status` in its metadata changes from `started` to `done` or
        /// `failed`.
        Tool = "tool",
    }
}

names! {
    /// Processing status of a user's message.
    pub enum MessageStatus {
        /// Stored; no run has read it yet.
        Pending = "pending",
        /// A run has read it.
        Processing = "processing",
        /// The run that read it ended normally.
        Answered = "answered",
        /// The run that read it failed or was cancelled.
        Failed = "failed",
    }
}

/// A message of the thread.
///
/// ```json
/// {
///   "id": "msg_0190…", "goal_id": "goal_0190…", "source": "user", "message_type": "text",
///   "content": "Plan a trip to Rome", "metadata": {}, "status": "answered", "run_id": "run_0190…", "seq": 2,
///   "created_at": "2026-11-22T09:00:00.000Z", "processed_at": "2026-11-22T09:00:07.120Z"
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MessageResponse))]
pub struct Message {
    pub id: MessageId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub owner: Owner,
    pub source: Source,
    pub message_type: MessageType,
    /// Markdown; for a tool cell, its title.
    pub content: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::MessageMetadata>))]
    pub metadata: Value,
    /// Processing status of a user's message; null for other messages.
    pub status: Option<MessageStatus>,
    /// The run that answers it or wrote it.
    pub run_id: Option<RunId>,
    /// The answer as a value, if a form was asked for: what `content` has as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub result: Option<Value>,
    /// Its position in the agentable's event stream.
    pub seq: i64,
    pub created_at: Time,
    /// When the run that read it ended.
    pub processed_at: Option<Time>,
}

/// The key of the metadata of a message whose content is a value of the form that was asked for.
pub const RESULT: &str = "result";

/// The value of a message's content, if a form was asked for.
pub fn result_of(metadata: &Value, content: &str) -> Option<Value> {
    (metadata[RESULT] == true).then(|| serde_json::from_str(content).ok()).flatten()
}

/// Maximum size of a message's metadata as JSON, in bytes: it is sent to every stream of the thread.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// Maximum length of an imported message of an agent, in bytes of UTF-8: several times the longest answer of a model.
pub const MAX_AGENT_MESSAGE_BYTES: usize = 1024 * 1024;
/// Maximum length of a message that a user posts, in bytes of UTF-8.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// What happens to a system message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is posted. An open run reads it at its next step; otherwise it opens a run.
    Posted,
    /// It is added to the history for the next run.
    Noted,
    /// Nothing happens.
    Refused,
}

/// Decides about a system message. `opens_run`: it is there to open a run (a check-in, a feed), not to report something.
///
/// An archived agentable is started only by a message of a person. A message that is to open a run is refused while
/// another run is open.
pub fn delivery(run_open: bool, archived: bool, opens_run: bool) -> Delivery {
    match (run_open, opens_run) {
        (true, true) => Delivery::Refused,
        (false, true) if archived => Delivery::Refused,
        (false, false) if archived => Delivery::Noted,
        _ => Delivery::Posted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_agentables_are_not_started_and_lose_no_report() {
        assert_eq!(delivery(false, true, true), Delivery::Refused);
        assert_eq!(delivery(false, true, false), Delivery::Noted);
        assert_eq!(delivery(true, true, false), Delivery::Posted, "the open run reads it");
    }

    #[test]
    fn second_run_is_not_opened() {
        assert_eq!(delivery(true, false, true), Delivery::Refused);
        assert_eq!(delivery(false, false, true), Delivery::Posted);
        assert_eq!(delivery(true, false, false), Delivery::Posted);
    }
}
