//! Whether a document can be stored and gone on with; if not, which part of it, and why.

mod sessions;

use chrono::{DateTime, Datelike, Utc};
use serde_json::{Map, Value};

use super::{Conversation, HistoryEntry, Version, digest};
use crate::agentable::{MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS as MAX_AGENTABLE_TITLE_CHARS};
use crate::history::{Block, RawBlock, Role, validate_complete};
use crate::knowledge::{MAX_DOCUMENT_BYTES, MAX_LEARNINGS, MAX_NOTES, MAX_SENTENCE_BYTES, MAX_TITLE_CHARS};
use crate::message::{MAX_AGENT_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MessageType, Source};

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {detail}")]
pub struct Invalid {
    /// Where: a JSON Pointer into the document.
    pub pointer: String,
    /// What is wrong there, and what is allowed.
    pub detail: String,
}

type Checked = Result<(), Invalid>;

fn wrong(pointer: impl Into<String>, detail: impl Into<String>) -> Checked {
    Err(Invalid { pointer: pointer.into(), detail: detail.into() })
}

impl Conversation {
    /// Whether it can be stored, and gone on with.
    ///
    /// # Errors
    /// [`Invalid`]: the first thing that is wrong.
    pub fn check(&self) -> Checked {
        if !self.title.is_empty() {
            line("/title", &self.title, MAX_AGENTABLE_TITLE_CHARS)?;
        }
        text("/description", &self.description, MAX_DESCRIPTION_BYTES)?;
        self.check_messages()?;
        for (index, entry) in self.history.iter().enumerate() {
            check_entry(index, entry)?;
        }
        // Where digests are, they name the very entry; what else is wrong then follows from it.
        let turns = self.check_turns();
        if let Err(mut changed) = self.check_digests() {
            if let Err(turns) = turns {
                changed.detail = format!("{}; as it is, {}", changed.detail, turns.detail);
            }
            return Err(changed);
        }
        turns?;
        self.check_version()?;
        self.check_sessions()?;
        self.check_compressions()?;
        self.check_results()?;
        self.check_knowledge()
    }

    /// That there is nothing its version does not know.
    fn check_version(&self) -> Checked {
        if self.version != Version::One {
            let told = "is of version 1: say which `sessions` these entries belong to";
            return self.closed_entries.map_or(Ok(()), |_| wrong("/closed_entries", told));
        }
        let counts = [
            ("/sessions", self.sessions.len()),
            ("/compressions", self.compressions.len()),
            ("/results", self.results.len()),
        ];
        let told = "cannot be in a document of version 1: leave them out, or say version 2";
        counts.iter().find(|(_, count)| *count > 0).map_or(Ok(()), |(pointer, _)| wrong(*pointer, told))
    }

    fn check_messages(&self) -> Checked {
        for (index, message) in self.messages.iter().enumerate() {
            let at = |field: &str| format!("/messages/{index}{field}");
            let of_user = message.source == Source::User;
            let most = if of_user { MAX_MESSAGE_BYTES } else { MAX_AGENT_MESSAGE_BYTES };
            text(&at("/content"), &message.content, most)?;
            check_metadata(&at("/metadata"), &message.metadata)?;
            time(&at("/created_at"), message.created_at)?;
            if of_user && message.content.trim().is_empty() {
                return wrong(at("/content"), "a user's message may not be empty");
            }
            if message.message_type == MessageType::Tool && message.source != Source::Agent {
                return wrong(at("/message_type"), "only an agent's message can be a tool's cell");
            }
        }
        Ok(())
    }

    /// That the history is one a provider accepts, as a whole and in the part that models still see.
    fn check_turns(&self) -> Checked {
        let entries = &self.history;
        let closed = self.closed_entries.unwrap_or(0);
        let Some(open) = entries.get(closed..) else {
            let told = format!(
                "is {closed}, and the history has {} entries: it can be as many at most",
                entries.len()
            );
            return wrong("/closed_entries", told);
        };
        let faulty = |fault: crate::history::Fault, begin: usize| {
            wrong(format!("/history/{}", begin + fault.index()), fault.to_string())
        };
        validate_complete(entries).or_else(|fault| faulty(fault, 0))?;
        validate_complete(open).or_else(|fault| faulty(fault, closed))
    }

    fn check_digests(&self) -> Checked {
        let Some(digests) = &self.digests else { return Ok(()) };
        for (index, (entry, exported)) in self.history.iter().zip(digests).enumerate() {
            if digest(entry) != *exported {
                let told = "is not the entry that was exported: it was changed, or another one is missing or was \
                            added before it. Leave out `digests` to import what you changed on purpose";
                return wrong(format!("/history/{index}"), told);
            }
        }
        let (there, exported) = (self.history.len(), digests.len());
        if there == exported {
            return Ok(());
        }
        let told =
            format!("{exported} entries were exported, and {there} are here: the rest is missing or new");
        wrong(format!("/history/{}", there.min(exported)), told)
    }

    fn check_knowledge(&self) -> Checked {
        few("/notes", self.notes.len(), MAX_NOTES)?;
        for (index, note) in self.notes.iter().enumerate() {
            let at = |field: &str| format!("/notes/{index}{field}");
            line(&at("/title"), &note.title, MAX_TITLE_CHARS)?;
            if note.title.contains(['\n', '\r']) {
                return wrong(at("/title"), "must be one line");
            }
            filled(&at("/content"), &note.content, MAX_DOCUMENT_BYTES)?;
            time(&at("/created_at"), note.created_at)?;
            time(&at("/updated_at"), note.updated_at)?;
        }
        few("/learnings", self.learnings.len(), MAX_LEARNINGS)?;
        for (index, learning) in self.learnings.iter().enumerate() {
            let at = |field: &str| format!("/learnings/{index}{field}");
            filled(&at("/content"), &learning.content, MAX_SENTENCE_BYTES)?;
            time(&at("/created_at"), learning.created_at)?;
            time(&at("/updated_at"), learning.updated_at)?;
        }
        Ok(())
    }
}

fn check_metadata(pointer: &str, metadata: &Map<String, Value>) -> Checked {
    let bytes = serde_json::to_vec(metadata).map_or(0, |json| json.len());
    if bytes > MAX_METADATA_BYTES {
        return wrong(pointer, format!("has {bytes} bytes; {MAX_METADATA_BYTES} are allowed"));
    }
    storable(pointer, &Value::Object(metadata.clone()))
}

/// What can be said of an entry without the others.
fn check_entry(index: usize, entry: &HistoryEntry) -> Checked {
    let at = |field: String| format!("/history/{index}{field}");
    time(&at("/created_at".to_owned()), entry.created_at)?;
    for (nth, block) in entry.content.iter().enumerate() {
        let at = |field: &str| at(format!("/content/{nth}{field}"));
        let raw = match block {
            Block::Text { text, raw } => {
                if text.is_empty() {
                    return wrong(at("/text"), "a text block may not be empty");
                }
                raw.as_ref()
            }
            Block::ToolUse { id, name, input, raw } => {
                if id.is_empty() || name.is_empty() {
                    return wrong(at(""), "a tool call needs an `id` and a `name`");
                }
                if !input.is_object() {
                    return wrong(at("/input"), "the arguments of a tool call must be an object");
                }
                raw.as_ref()
            }
            Block::ToolResult { .. } => None,
            Block::Thinking { raw, .. } => raw.as_ref(),
            Block::Opaque { raw } => Some(raw),
        };
        if let Some(raw) = raw {
            check_raw(&at("/raw"), entry.role, raw)?;
        }
        storable(&at(""), &serde_json::to_value(block).unwrap_or_default())?;
    }
    Ok(())
}

/// That a provider's block is one that may be sent back to it.
fn check_raw(pointer: &str, role: Role, raw: &RawBlock) -> Checked {
    if role == Role::User {
        return wrong(pointer, "only the model's entries have blocks of a provider: leave it out");
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(&raw.json).is_err() {
        return wrong(format!("{pointer}/json"), "a provider's block must be the text of one JSON value");
    }
    raw.check().or_else(|detail| wrong(format!("{pointer}/json"), detail))
}

fn few(pointer: &str, count: usize, most: i64) -> Checked {
    if i64::try_from(count).is_ok_and(|count| count <= most) {
        return Ok(());
    }
    wrong(pointer, format!("has {count} items; {most} are allowed"))
}

fn line(pointer: &str, line: &str, most_chars: usize) -> Checked {
    if line.trim().is_empty() {
        return wrong(pointer, "may not be empty");
    }
    if line.chars().count() > most_chars {
        return wrong(pointer, format!("may have {most_chars} characters at most"));
    }
    text(pointer, line, usize::MAX)
}

/// A text that says something.
fn filled(pointer: &str, content: &str, most_bytes: usize) -> Checked {
    if content.trim().is_empty() {
        return wrong(pointer, "may not be empty");
    }
    text(pointer, content, most_bytes)
}

fn text(pointer: &str, text: &str, most_bytes: usize) -> Checked {
    if text.len() > most_bytes {
        return wrong(pointer, format!("has {} bytes; {most_bytes} are allowed", text.len()));
    }
    if text.contains('\0') {
        return wrong(pointer, "the character U+0000 cannot be stored");
    }
    Ok(())
}

/// Postgres stores every character but one.
fn storable(pointer: &str, value: &Value) -> Checked {
    let mut stored = value.clone();
    crate::storable::storable_value(&mut stored);
    if stored == *value { Ok(()) } else { wrong(pointer, "the character U+0000 cannot be stored") }
}

/// Postgres knows fewer years than Rust does.
fn time(pointer: &str, time: DateTime<Utc>) -> Checked {
    if (1970..=9999).contains(&time.year()) {
        return Ok(());
    }
    wrong(pointer, "must lie between the years 1970 and 9999")
}

#[cfg(test)]
mod tests;
