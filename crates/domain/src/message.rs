//! Thread messages: what the user sees.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{MessageId, RunId};

/// Who wrote a thread message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The person.
    User,
    /// The agent.
    Agent,
    /// Houston, telling of a failure.
    Error,
    /// Houston, telling its agent something: that a task has ended, that a time has come. Nobody's words.
    System,
}

impl Source {
    /// The name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Error => "error",
            Self::System => "system",
        }
    }
}

/// A message, or the cell of a tool at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// Something to read.
    Text,
    /// A tool; its metadata moves from `started` to `done` or `failed`.
    Tool,
}

impl MessageType {
    /// The name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Tool => "tool",
        }
    }
}

/// How far a user's message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// Stored, not yet read by a run.
    Pending,
    /// A run has read it.
    Processing,
    /// That run ended well.
    Answered,
    /// That run failed, or was cancelled.
    Failed,
}

/// A thread message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its position in the agentable's event stream.
    pub seq: i64,
    /// Who wrote it.
    pub source: Source,
    /// Message or tool cell.
    pub message_type: MessageType,
    /// Markdown; of a tool cell, its title.
    pub content: String,
    /// Tool details, retry countdowns, …
    pub metadata: Value,
    /// The run that answers it, or that wrote it.
    pub run_id: Option<RunId>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

/// The most metadata a message may have, in bytes as JSON: it goes to every stream of the thread.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// The longest message of an agent that may be imported, in bytes of UTF-8: some times what a model answers at most.
pub const MAX_AGENT_MESSAGE_BYTES: usize = 1024 * 1024;
/// The longest message a person may post, in bytes of UTF-8 (protocols: 256 KiB).
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
