//! A conversation as a JSON document, for export, fork and import: one agentable with its thread, its history
//! including closed sessions, its notes, learnings and files, and the closed questions of its runs. The only ids in it are those
//! of large results, because texts refer to them; so an imported document is exported again unchanged.
//!
//! ```json
//! {"format": "houston.conversation", "version": 2, "kind": "goal", "title": "Tokyo",
//!  "messages": [{"source": "user", "message_type": "text", "content": "Book it", "created_at": "2026-11-20T10:00:00Z"}],
//!  "history": [{"role": "user", "content": [{"type": "text", "text": "Book it"}], "created_at": "2026-11-20T10:00:00Z"}],
//!  "notes": [], "learnings": [], "sessions": [], "compressions": [], "results": [], "questions": []}
//! ```
//!
//! # Invariants
//! - A document that passes [`Conversation::check`] can be stored and continued: no tool call of its history is
//!   open, and no session ends between a call and its result.
//! - Blocks that only a provider understands are stored as text, byte for byte as the provider sent them.
//! - With `digests`, every entry that was changed, removed, added or moved is detected and named.
//! - A document that is imported counts as untrusted, unless it says that it is not and its `seal` shows that this installation
//!   wrote so.
//!
//! # Change the format
//! A field with a default may be added. Any other change needs a new [`Version`], and older versions must stay
//! readable: see [`Conversation::upgraded`].

mod check;
mod closed_session;
mod digest;
mod exported_compression;
mod exported_file;
mod exported_question;
mod exported_result;
mod version;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::history::{Block, Entry, EntryView, Role};
use crate::message::{MessageType, Source};

pub use self::check::Invalid;
pub use self::closed_session::{ClosedSession, MAX_SUMMARY_BYTES, SummarySource};
pub use self::digest::digest;
pub use self::exported_compression::ExportedCompression;
pub use self::exported_file::ExportedFile;
pub use self::exported_question::{ExportedApproval, ExportedQuestion};
pub use self::exported_result::ExportedResult;
pub use self::version::{FORMAT, Format, Version};

/// A conversation document; see the [module](self) for an example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Always [`FORMAT`].
    pub format: Format,
    /// The version of the format.
    pub version: Version,
    /// The kind of the agentable, as in `goal`.
    pub kind: String,
    /// The title: one line; empty if it has none.
    pub title: String,
    /// What the conversation is about.
    #[serde(default)]
    pub description: String,
    /// The tools it may call, out of those of its kind; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The thread messages the user saw, oldest first.
    #[serde(default)]
    pub messages: Vec<ThreadMessage>,
    /// The entries the model saw, oldest first. Positions in it count from 1.
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
    /// Only in [`Version::One`], which has no sessions: how many of the first entries models no longer see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_entries: Option<usize>,
    /// The [`digest`] of each history entry, in the same order. Documents written by hand leave them out; digests
    /// that are present are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digests: Option<Vec<String>>,
    /// Notes, oldest first.
    #[serde(default)]
    pub notes: Vec<ExportedNote>,
    /// Learnings, oldest first.
    #[serde(default)]
    pub learnings: Vec<ExportedLearning>,
    /// Closed sessions, oldest first: together they cover the beginning of the history.
    #[serde(default)]
    pub sessions: Vec<ClosedSession>,
    /// Summaries that replace the beginning of a long session, oldest first.
    #[serde(default)]
    pub compressions: Vec<ExportedCompression>,
    /// Large tool results that the texts refer to by id.
    #[serde(default)]
    pub results: Vec<ExportedResult>,
    /// Closed questions of its runs, oldest first.
    #[serde(default)]
    pub questions: Vec<ExportedQuestion>,
    /// The files of its workspace, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ExportedFile>,
    /// Whether something in it may be what strangers wrote, beyond what texts and calls of its history show. Runs of an import
    /// then count as having read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Shows that this installation wrote the document, and that it is unchanged: see [`Conversation::digest`].
    /// A document without it counts as untrusted when it is imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// A message of the thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadMessage {
    /// Its author.
    pub source: Source,
    /// Text message or tool cell.
    pub message_type: MessageType,
    /// Markdown; for a tool cell, its title.
    pub content: String,
    /// The client's own data; for a tool cell, the id of the call it displays.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// The author of the entry.
    pub role: Role,
    /// Its blocks, in order.
    #[serde(deserialize_with = "blocks")]
    pub content: Vec<Block>,
    /// When it was committed.
    pub created_at: DateTime<Utc>,
}

impl EntryView for HistoryEntry {
    fn role(&self) -> Role {
        self.role
    }

    fn content(&self) -> &[Block] {
        &self.content
    }
}

/// Deserializes blocks without spare capacity: `Vec` reserves four slots for the first, and most entries have
/// one block.
fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
    let mut blocks = Vec::deserialize(deserializer)?;
    blocks.shrink_to_fit();
    Ok(blocks)
}

impl HistoryEntry {
    /// The entry without its timestamp.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry { role: self.role, content: self.content.clone() }
    }
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedNote {
    /// The title: one line.
    pub title: String,
    /// Markdown.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A learning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedLearning {
    /// One sentence.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Conversation {
    /// This document with the digests of its entries filled in.
    #[must_use]
    pub fn with_digests(mut self) -> Self {
        self.digests = Some(self.history.iter().map(digest).collect());
        self
    }

    /// This document in the version that is written. Entries that version 1 only counts as closed become one
    /// session, whose summary is written after the import.
    #[must_use]
    pub fn upgraded(mut self) -> Self {
        self.version = Version::WRITTEN;
        let closed = self.closed_entries.take().unwrap_or(0).min(self.history.len());
        if self.sessions.is_empty() && closed > 0 {
            self.sessions.push(ClosedSession::pending(1, &self.history[..closed]));
        }
        self
    }

    /// How many of the first entries belong to closed sessions: models no longer see them.
    #[must_use]
    pub fn closed_entry_count(&self) -> usize {
        self.sessions.last().map_or(0, |session| session.last_position)
    }
}
