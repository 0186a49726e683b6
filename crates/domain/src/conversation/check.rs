//! Validation of a conversation document: whether it can be stored and continued; if not, which part is wrong and why.

mod files;
mod questions;
mod sessions;

use chrono::{DateTime, Datelike, Utc};
use serde_json::{Map, Value};

use super::{Conversation, HistoryEntry, Version, digest};
use crate::agentable::{MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS as MAX_AGENTABLE_TITLE_CHARS};
use crate::history::{Block, RawBlock, Role, validate_complete};
use crate::knowledge::{KnowledgeLimits, MAX_DOCUMENT_BYTES, MAX_SENTENCE_BYTES, MAX_TITLE_CHARS};
use crate::message::{MAX_AGENT_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MessageType, Source};

/// The first error of a document.
///
/// Displayed as `/history/3: entry 3: two entries of the model in a row`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {detail}")]
pub struct Invalid {
    /// Position of the error: a JSON Pointer into the document.
    pub pointer: String,
    /// What is wrong there, and what is allowed.
    pub detail: String,
}

type Checked = Result<(), Invalid>;

fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Checked {
    Err(Invalid { pointer: pointer.into(), detail: detail.into() })
}

impl Conversation {
    /// Checks that the document can be stored, and that its conversation can continue.
    ///
    /// # Errors
    /// [`Invalid`] for the first error found.
    pub fn check(&self) -> Checked {
        if !self.title.is_empty() {
            line("/title", &self.title, MAX_AGENTABLE_TITLE_CHARS)?;
        }
        text("/description", &self.description, MAX_DESCRIPTION_BYTES)?;
        self.check_messages()?;
        for (index, entry) in self.history.iter().enumerate() {
            check_entry(index, entry)?;
        }
        // A wrong digest names the changed entry itself; other errors then follow from that change.
        let turns = self.check_turns();
        if let Err(mut changed) = self.check_digests() {
            if let Err(turns) = turns {
                changed.detail = format!("{}; moreover: {}", changed.detail, turns.detail);
            }
            return Err(changed);
        }
        turns?;
        self.check_version()?;
        self.check_sessions()?;
        self.check_compressions()?;
        self.check_results()?;
        self.check_questions()?;
        self.check_knowledge()?;
        self.check_files()
    }

    /// Checks that the importing installation allows this many notes, learnings and files.
    ///
    /// # Errors
    /// [`Invalid`] at `/notes`, `/learnings` or `/files` when there are more than `limits` allows.
    pub fn check_counts(&self, limits: &KnowledgeLimits) -> Checked {
        check_count("/notes", self.notes.len(), limits.max_notes)?;
        check_count("/learnings", self.learnings.len(), limits.max_learnings)?;
        self.check_file_counts(&limits.files)
    }

    /// Checks that the document has no field that its version does not have.
    fn check_version(&self) -> Checked {
        if self.version != Version::One {
            let detail = "is only allowed in version 1: list the closed `sessions` instead";
            return self.closed_entries.map_or(Ok(()), |_| invalid("/closed_entries", detail));
        }
        let counts = [
            ("/sessions", self.sessions.len()),
            ("/compressions", self.compressions.len()),
            ("/results", self.results.len()),
            ("/questions", self.questions.len()),
            ("/files", self.files.len()),
        ];
        let detail = "is not allowed in a document of version 1: leave it out, or set `version` to 2";
        counts.iter().find(|(_, count)| *count > 0).map_or(Ok(()), |(pointer, _)| invalid(*pointer, detail))
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
                return invalid(at("/content"), "must not be empty in a message of the user");
            }
            if message.message_type == MessageType::Tool && message.source != Source::Agent {
                return invalid(
                    at("/message_type"),
                    "must be `text`: only messages of the agent can be tool cells",
                );
            }
        }
        Ok(())
    }

    /// Checks that a provider accepts the history, as a whole and in the part that models still see.
    fn check_turns(&self) -> Checked {
        let entries = &self.history;
        let closed = self.closed_entries.unwrap_or(0);
        let Some(open) = entries.get(closed..) else {
            let detail = format!("is {closed}, but the history has only {} entries", entries.len());
            return invalid("/closed_entries", detail);
        };
        let faulty = |fault: crate::history::Fault, begin: usize| {
            invalid(format!("/history/{}", begin + fault.index()), fault.to_string())
        };
        validate_complete(entries).or_else(|fault| faulty(fault, 0))?;
        validate_complete(open).or_else(|fault| faulty(fault, closed))
    }

    fn check_digests(&self) -> Checked {
        let Some(digests) = &self.digests else { return Ok(()) };
        for (index, (entry, exported)) in self.history.iter().zip(digests).enumerate() {
            if digest(entry) != *exported {
                let detail = "is not the entry that was exported: it was changed, or an entry before it was removed \
                              or added. Leave out `digests` to import a document you changed on purpose";
                return invalid(format!("/history/{index}"), detail);
            }
        }
        let (present, exported) = (self.history.len(), digests.len());
        if present == exported {
            return Ok(());
        }
        let detail = format!(
            "{exported} entries were exported, but the history has {present}: entries were removed or added"
        );
        invalid(format!("/history/{}", present.min(exported)), detail)
    }

    fn check_knowledge(&self) -> Checked {
        for (index, note) in self.notes.iter().enumerate() {
            let at = |field: &str| format!("/notes/{index}{field}");
            line(&at("/title"), &note.title, MAX_TITLE_CHARS)?;
            if note.title.contains(['\n', '\r']) {
                return invalid(at("/title"), "must be one line");
            }
            non_blank_text(&at("/content"), &note.content, MAX_DOCUMENT_BYTES)?;
            time(&at("/created_at"), note.created_at)?;
            time(&at("/updated_at"), note.updated_at)?;
        }
        for (index, learning) in self.learnings.iter().enumerate() {
            let at = |field: &str| format!("/learnings/{index}{field}");
            non_blank_text(&at("/content"), &learning.content, MAX_SENTENCE_BYTES)?;
            time(&at("/created_at"), learning.created_at)?;
            time(&at("/updated_at"), learning.updated_at)?;
        }
        Ok(())
    }
}

fn check_metadata(pointer: &str, metadata: &Map<String, Value>) -> Checked {
    let bytes = serde_json::to_vec(metadata).map_or(0, |json| json.len());
    if bytes > MAX_METADATA_BYTES {
        return invalid(pointer, format!("has {bytes} bytes; at most {MAX_METADATA_BYTES} are allowed"));
    }
    storable(pointer, &Value::Object(metadata.clone()))
}

/// Checks one entry, independently of the others.
fn check_entry(index: usize, entry: &HistoryEntry) -> Checked {
    let at = |field: String| format!("/history/{index}{field}");
    time(&at("/created_at".to_owned()), entry.created_at)?;
    for (nth, block) in entry.content.iter().enumerate() {
        let at = |field: &str| at(format!("/content/{nth}{field}"));
        let raw = match block {
            Block::Text { text, raw } => {
                if text.is_empty() {
                    return invalid(at("/text"), "must not be empty");
                }
                raw.as_ref()
            }
            Block::ToolUse { id, name, input, raw } => {
                if id.is_empty() || name.is_empty() {
                    return invalid(at(""), "a tool call needs an `id` and a `name`");
                }
                if !input.is_object() {
                    return invalid(at("/input"), "must be an object: the arguments of the tool call");
                }
                raw.as_ref()
            }
            Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) => None,
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

/// Checks that a provider's block may be sent back to that provider.
fn check_raw(pointer: &str, role: Role, raw: &RawBlock) -> Checked {
    if role == Role::User {
        return invalid(pointer, "is only allowed in entries of the assistant: leave it out");
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(&raw.json).is_err() {
        return invalid(format!("{pointer}/json"), "must be the text of one JSON value");
    }
    raw.check().or_else(|detail| invalid(format!("{pointer}/json"), detail))
}

fn check_count(pointer: &str, count: usize, most: u32) -> Checked {
    if count <= most as usize {
        return Ok(());
    }
    invalid(pointer, format!("has {count} items; at most {most} are allowed"))
}

fn line(pointer: &str, line: &str, most_chars: usize) -> Checked {
    if line.trim().is_empty() {
        return invalid(pointer, "must not be empty");
    }
    if line.chars().count() > most_chars {
        return invalid(pointer, format!("must have at most {most_chars} characters"));
    }
    text(pointer, line, usize::MAX)
}

/// Checks a text that must not be blank.
fn non_blank_text(pointer: &str, content: &str, most_bytes: usize) -> Checked {
    if content.trim().is_empty() {
        return invalid(pointer, "must not be empty");
    }
    text(pointer, content, most_bytes)
}

fn text(pointer: &str, text: &str, most_bytes: usize) -> Checked {
    if text.len() > most_bytes {
        return invalid(pointer, format!("has {} bytes; at most {most_bytes} are allowed", text.len()));
    }
    if text.contains('\0') {
        return invalid(pointer, "must not contain the character U+0000, which cannot be stored");
    }
    Ok(())
}

/// Checks that Postgres can store every character: all but U+0000.
fn storable(pointer: &str, value: &Value) -> Checked {
    let mut stored = value.clone();
    crate::storable::storable_value(&mut stored);
    if stored == *value {
        Ok(())
    } else {
        invalid(pointer, "must not contain the character U+0000, which cannot be stored")
    }
}

/// Checks that Postgres can store the year.
fn time(pointer: &str, time: DateTime<Utc>) -> Checked {
    if (1970..=9999).contains(&time.year()) {
        return Ok(());
    }
    invalid(pointer, "must be between the years 1970 and 9999")
}

#[cfg(test)]
mod tests;
