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
//! A field with a default may be added. Any other change needs a new [`VERSION`].

mod check;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::compression::CompressionReason;
use crate::history::{Block, Entry, EntryView, Role};
use crate::id::ResultId;
use crate::message::{MessageType, Source};
use crate::nullable::nullable;
use crate::question::{QuestionKind, QuestionState};
use crate::session::CompletionReason;
pub use crate::session::SummarySource;

/// A conversation document; see the [module](self) for an example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// Always [`FORMAT`]: with another one it is not deserialized.
    #[serde(deserialize_with = "known_format")]
    pub format: String,
    /// Always [`VERSION`], likewise.
    #[serde(deserialize_with = "known_version")]
    pub version: u64,
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

    /// How many of the first entries belong to closed sessions: models no longer see them.
    pub fn closed_entry_count(&self) -> usize {
        self.sessions.last().map_or(0, |session| session.last_position)
    }
}

/// The value of the `format` field of every document.
pub const FORMAT: &str = "houston.conversation";

/// The version of the format.
pub const VERSION: u64 = 2;

fn known_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let given = String::deserialize(deserializer)?;
    if given == FORMAT {
        return Ok(given);
    }
    Err(serde::de::Error::custom(format!("unknown format `{given:.80}`: only `{FORMAT}` can be imported")))
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let given = u64::deserialize(deserializer)?;
    let detail = || format!("unknown version {given}: only version {VERSION} can be imported");
    if given == VERSION { Ok(given) } else { Err(serde::de::Error::custom(detail())) }
}

/// Maximum length of a session's summary, in bytes. Model-written summaries are cut at 4,000 bytes; an extract of what
/// the user wrote has at most 1,028 characters of up to four bytes each.
pub const MAX_SUMMARY_BYTES: usize = 4_200;

/// A closed session.
///
/// ```json
/// {"first_position": 1, "last_position": 4, "completion_reason": "session_timeout", "summary": "Booked a hotel.",
///  "summary_source": "model", "pending": false, "message_count": 3, "token_count": 120,
///  "started_at": "2026-11-20T10:00:00Z", "completed_at": "2026-11-20T10:05:00Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSession {
    /// Position of its first entry, from 1. The first session begins at 1, every other one directly after its
    /// predecessor.
    pub first_position: usize,
    /// Position of its last entry.
    pub last_position: usize,
    /// Why it was closed.
    pub completion_reason: CompletionReason,
    /// The summary. It may be empty while `pending`: then the beginning of what the user wrote is used
    /// instead.
    #[serde(default)]
    pub summary: String,
    /// How the summary was produced.
    pub summary_source: SummarySource,
    /// Whether summary and counts are not written yet; they are written after an import.
    pub pending: bool,
    /// Messages of both sides; `None` while `pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<u32>,
    /// Estimated tokens of the whole session; `None` while `pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
    /// When its first entry was written.
    pub started_at: DateTime<Utc>,
    /// When its last entry was written.
    pub completed_at: DateTime<Utc>,
}

impl ClosedSession {
    /// A session of `entries`, the first of which is at `first_position`, with its summary still pending.
    pub fn pending(first_position: usize, entries: &[HistoryEntry]) -> Self {
        let times = || entries.iter().map(|entry| entry.created_at);
        Self {
            first_position,
            last_position: (first_position + entries.len()).saturating_sub(1),
            completion_reason: CompletionReason::SessionTimeout,
            summary: String::new(),
            summary_source: SummarySource::Extract,
            pending: true,
            message_count: None,
            token_count: None,
            started_at: times().min().unwrap_or_default(),
            completed_at: times().max().unwrap_or_default(),
        }
    }
}

/// A question that a run asked and that is closed: with its answer, or with what closed it instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedQuestion {
    /// What it was for.
    pub kind: QuestionKind,
    /// What it was about, such as the id of a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The text for people.
    pub text: String,
    /// The JSON Schema of an answer; `None`: any JSON value.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The answer that held if none came in time.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// When it expired, or would have expired; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// What closed it; never `open`.
    pub state: QuestionState,
    /// The answer, if it was answered.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// When it was asked.
    pub created_at: DateTime<Utc>,
    /// When it was closed.
    pub closed_at: DateTime<Utc>,
    /// The tool call that an approval was about; `subject` is its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ExportedApproval>,
}

/// The tool call that an approval was about. Its cell is that with its id in the thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedApproval {
    /// The tool.
    pub tool: String,
    /// Its arguments, as the model gave them.
    pub input: Value,
    /// Why a person was asked, as a clause.
    pub why: String,
}

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedFile {
    /// The path below the workspace.
    pub path: String,
    /// The text.
    pub content: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A summary that replaces the beginning of a session. For the last session, the next run is sent the newest
/// compression and the entries after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedCompression {
    /// The summary replaces the entries of its session up to and including this position, from 1.
    pub through_position: usize,
    /// The text of the summary.
    pub summary: String,
    /// Why the history was compressed.
    pub reason: CompressionReason,
    /// Entries of the request before the compression.
    pub entries_before: u32,
    /// Entries of the request after it, including the summary.
    pub entries_after: u32,
    /// Estimated tokens of the request before the compression.
    pub tokens_before: u64,
    /// Estimated tokens of the request after it.
    pub tokens_after: u64,
    /// The model that wrote it, as `provider/model`; `None` for an extract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Cost of writing it, in US dollars; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Decimal>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

/// A large result of a tool: the history has its beginning and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedResult {
    /// The id that texts refer to. It does not change on import, because the texts do not either.
    pub id: ResultId,
    /// The id of the tool call it answers.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The complete result.
    pub content: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

impl Conversation {
    /// The ids of the large results that history, summaries and compressions refer to.
    pub fn referenced_results(&self) -> BTreeSet<ResultId> {
        let mut named = BTreeSet::new();
        for block in self.history.iter().flat_map(|entry| &entry.content) {
            match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => collect_ids(text, &mut named),
                Block::ToolUse { input, .. } => collect_ids(&input.to_string(), &mut named),
                Block::ToolResult { content, .. } => collect_ids(content, &mut named),
                Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => {}
            }
        }
        self.sessions.iter().for_each(|session| collect_ids(&session.summary, &mut named));
        self.compressions.iter().for_each(|compression| collect_ids(&compression.summary, &mut named));
        named
    }

    /// The SHA-256 of everything in the document but its seal and its digests; independent of the order of fields in its JSON.
    pub fn digest(&self) -> [u8; 32] {
        let Self {
            format: _,
            version,
            kind,
            title,
            description,
            tools,
            messages,
            history,
            digests: _,
            notes,
            learnings,
            sessions,
            compressions,
            results,
            questions,
            files,
            untrusted,
            seal: _,
        } = self;
        let mut hash = Sha256::new();
        feed(&mut hash, &[(version, kind, title, description, tools, (), untrusted)]);
        feed(&mut hash, messages);
        feed(&mut hash, history);
        feed(&mut hash, notes);
        feed(&mut hash, learnings);
        feed(&mut hash, sessions);
        feed(&mut hash, compressions);
        feed(&mut hash, results);
        feed(&mut hash, questions);
        feed(&mut hash, files);
        hash.finalize().into()
    }
}

/// Adds the result ids that occur in `text` to `named`.
fn collect_ids(text: &str, named: &mut BTreeSet<ResultId>) {
    let length = ResultId::PREFIX.len() + "_".len() + 32;
    let matches = text.match_indices(ResultId::PREFIX);
    named.extend(matches.filter_map(|(at, _)| text.get(at..at + length)?.parse::<ResultId>().ok()));
}

/// Hashes a list: its length, and each item with the length of its text. One item at a time is in memory.
fn feed<T: Serialize>(hash: &mut Sha256, items: &[T]) {
    hash.update(items.len().to_le_bytes());
    for item in items {
        let mut text = String::new();
        write(&serde_json::to_value(item).unwrap_or_default(), &mut text);
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
}

/// The first 16 bytes of the SHA-256 of an entry, as 32 hex digits; independent of the order of fields in its
/// JSON.
pub fn digest(entry: &HistoryEntry) -> String {
    let mut text = String::new();
    write(&serde_json::to_value(entry).unwrap_or_default(), &mut text);
    hex::encode(&Sha256::digest(text)[..16])
}

/// Appends canonical JSON: the fields of each object sorted by name, because databases and tools reorder
/// them.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            text.push('{');
            for name in names {
                text.push_str(&Value::String(name.clone()).to_string());
                text.push(':');
                write(&fields[name], text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Number(number) => text.push_str(&canonical_number(number)),
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// A number by its value: `1.0` and `1` are the same number to Postgres.
fn canonical_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ignores_only_the_order_of_fields() {
        let read = |text: &str| serde_json::from_str::<HistoryEntry>(text).unwrap();
        let one = r#"{"role": "assistant", "created_at": "2026-01-02T03:04:05Z", "content":
            [{"type": "tool_use", "id": "a", "name": "x", "input": {"b": 1, "a": 2.0}}]}"#;
        let same = one.replace(r#""b": 1, "a": 2.0"#, r#""a": 2, "b": 1"#);
        let other = one.replace(r#""b": 1"#, r#""b": 3"#);
        assert_eq!(digest(&read(one)), digest(&read(&same)));
        assert_ne!(digest(&read(one)), digest(&read(&other)));
        assert_ne!(digest(&read(one)), digest(&read(&one.replace("05Z", "06Z"))));
        assert_eq!(digest(&read(one)).len(), 32);
    }
}
