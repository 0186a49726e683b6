//! Thread messages: what the user sees; and whether a system message, which Houston itself posts to an agent, is posted.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{MessageId, RunId};
use crate::names::names;

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

/// A thread message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The id of the message.
    pub id: MessageId,
    /// Position of its event in the agentable's stream.
    pub seq: i64,
    /// The author.
    pub source: Source,
    /// Text message or tool cell.
    pub message_type: MessageType,
    /// Markdown; for a tool cell, its title.
    pub content: String,
    /// A JSON object: client data, tool call details, retry times.
    pub metadata: Value,
    /// The run that answers it or wrote it.
    pub run_id: Option<RunId>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

/// The key of the metadata of a message whose content is a value of the form that was asked for.
pub const RESULT: &str = "result";

/// The value of a message's content, if a form was asked for.
#[must_use]
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
#[must_use]
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
