//! A conversation as a document: what is exported, forked and imported. One agentable whole: its thread, its history
//! with the sessions that are closed, its notes and learnings. No ids but those of long results, which its texts name;
//! so what was imported is exported as the same document again.
//!
//! # Invariants
//! - What [`Conversation::check`] accepts can be stored and gone on with: no call of its history is open, no session
//!   ends between a call and its result.
//! - Blocks that only a provider understands are texts in it, byte for byte as the provider sent them.
//! - With `digests`, any change to an entry, and any entry that is missing, added or moved, is found and named.
//!
//! # Change the format
//! A field with a default may be added. Anything else is a [`Version`] more, and reading the older ones stays:
//! [`Conversation::upgraded`].

mod check;
mod closed_session;
mod digest;
mod kept_compression;
mod kept_result;
mod version;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::history::{Block, Entry, Role, Turn};
use crate::message::{MessageType, Source};

pub use self::check::Invalid;
pub use self::closed_session::{ClosedSession, MAX_SUMMARY_BYTES, SummarySource};
pub use self::digest::digest;
pub use self::kept_compression::KeptCompression;
pub use self::kept_result::KeptResult;
pub use self::version::{FORMAT, Format, Version};

/// A conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Always [`FORMAT`].
    pub format: Format,
    /// What it may hold.
    pub version: Version,
    /// The name of its agent type.
    pub kind: String,
    /// One line.
    pub title: String,
    /// What it is about.
    #[serde(default)]
    pub description: String,
    /// The tools it may call, of those of its kind; left out: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What the user saw, oldest first.
    #[serde(default)]
    pub messages: Vec<ThreadMessage>,
    /// What the model saw, oldest first. Positions in it count from 1.
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
    /// In [`Version::One`], which knew no sessions: how many of the first entries models no longer see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_entries: Option<usize>,
    /// Of each entry of the history, its [`digest`]. Whoever writes a document by hand leaves them out; those that
    /// are there are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digests: Option<Vec<String>>,
    /// Notes, oldest first.
    #[serde(default)]
    pub notes: Vec<KeptNote>,
    /// Learnings, oldest first.
    #[serde(default)]
    pub learnings: Vec<KeptLearning>,
    /// Closed sessions, oldest first: together they are the beginning of the history.
    #[serde(default)]
    pub sessions: Vec<ClosedSession>,
    /// What stands for the beginning of a long session, oldest first.
    #[serde(default)]
    pub compressions: Vec<KeptCompression>,
    /// Long results of tools that the texts name, to be read on in.
    #[serde(default)]
    pub results: Vec<KeptResult>,
}

/// A message of the thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadMessage {
    /// Who wrote it.
    pub source: Source,
    /// Message or tool cell.
    pub message_type: MessageType,
    /// Markdown; of a tool cell, its title.
    pub content: String,
    /// The client's own data; of a tool cell, which call of the history it shows.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    #[serde(deserialize_with = "blocks")]
    pub content: Vec<Block>,
    /// When it was committed.
    pub created_at: DateTime<Utc>,
}

impl Turn for HistoryEntry {
    fn role(&self) -> Role {
        self.role
    }

    fn content(&self) -> &[Block] {
        &self.content
    }
}

/// Blocks, in no more memory than they need: room for four is made for the first, and most entries have one.
fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
    let mut blocks = Vec::deserialize(deserializer)?;
    blocks.shrink_to_fit();
    Ok(blocks)
}

impl HistoryEntry {
    /// The entry alone.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry { role: self.role, content: self.content.clone() }
    }
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptNote {
    /// One line.
    pub title: String,
    /// Markdown.
    pub content: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A learning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptLearning {
    /// A sentence.
    pub content: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Conversation {
    /// The same with the digests of its entries as they are.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digests = Some(self.history.iter().map(digest).collect());
        self
    }

    /// The same in the version that is written. What an older one closed without a word becomes one session, whose
    /// summary is still to be written.
    #[must_use]
    pub fn upgraded(mut self) -> Self {
        self.version = Version::WRITTEN;
        let closed = self.closed_entries.take().unwrap_or(0).min(self.history.len());
        if self.sessions.is_empty() && closed > 0 {
            self.sessions.push(ClosedSession::unsummarised(1, &self.history[..closed]));
        }
        self
    }

    /// How many of the first entries belong to closed sessions: models no longer see them.
    #[must_use]
    pub fn closed_until(&self) -> usize {
        self.sessions.last().map_or(0, |session| session.last_position)
    }
}
