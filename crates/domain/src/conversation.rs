//! A conversation as a document: what is exported, forked and imported. One agentable whole: its thread, its history,
//! its notes and learnings; no ids, so that what was imported is exported as the same document again.
//!
//! # Invariants
//! - What [`Conversation::check`] accepts can be stored and gone on with: no call of its history is open.
//! - Blocks that only a provider understands are texts in it, byte for byte as the provider sent them.
//! - With `digests`, any change to an entry, and any entry that is missing, added or moved, is found and named.
//!
//! # Change the format
//! A field with a default may be added. Anything else is [`VERSION`] + 1, and reading the older version stays.

mod check;
mod digest;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::history::{Block, Entry, Role};
use crate::message::{MessageType, Source};

pub use self::check::Invalid;
pub use self::digest::digest;

/// What the documents call themselves.
pub const FORMAT: &str = "houston.conversation";
/// The version that is written, and the only one there is so far.
pub const VERSION: u32 = 1;

/// A conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Always [`FORMAT`].
    pub format: Format,
    /// Always [`VERSION`].
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
    /// What the model saw, oldest first.
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
    /// How many of the first entries belong to sessions that are closed: models no longer see them.
    #[serde(default)]
    pub closed_entries: usize,
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
    /// Closed sessions, oldest first.
    #[serde(default)]
    pub sessions: Vec<ClosedSession>,
}

/// The name of the format: no other can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub struct Format;

impl From<Format> for &'static str {
    fn from(_: Format) -> Self {
        FORMAT
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        if given == FORMAT {
            return Ok(Self);
        }
        let given: String = given.chars().take(80).collect();
        Err(serde::de::Error::custom(format!("`{given}` is another format; only `{FORMAT}` can be imported")))
    }
}

/// The version of the format: no other can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "u32")]
pub struct Version;

impl From<Version> for u32 {
    fn from(_: Version) -> Self {
        VERSION
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = u64::deserialize(deserializer)?;
        if given == u64::from(VERSION) {
            return Ok(Self);
        }
        let told = format!("version {given} is not known here; version {VERSION} can be imported");
        Err(serde::de::Error::custom(told))
    }
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
    pub content: Vec<Block>,
    /// When it was committed.
    pub created_at: DateTime<Utc>,
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

/// A closed session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSession {
    /// How many entries it has; the first session begins with the first entry.
    pub entries: usize,
    /// What it was about, in two or three sentences.
    pub summary: String,
    /// Why it was closed.
    pub completion_reason: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it was closed.
    pub completed_at: DateTime<Utc>,
}

impl Conversation {
    /// The same with the digests of its entries as they are.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digests = Some(self.history.iter().map(digest).collect());
        self
    }

    /// Leaves out the end of the history that is not complete: the calls of its last turn while one of them is open,
    /// with the results that are there.
    #[must_use]
    pub fn completed(mut self) -> Self {
        let entries: Vec<Entry> = self.history.iter().map(HistoryEntry::entry).collect();
        self.history.truncate(crate::history::complete(&entries));
        self.closed_entries = self.closed_entries.min(self.history.len());
        self
    }
}
