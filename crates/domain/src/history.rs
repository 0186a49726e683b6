//! The LLM history: what the model sees, entry by entry, and the rule every committed prefix obeys.
//!
//! A provider refuses a history whose `tool_use` has no `tool_result` in the next user turn, and refuses it
//! for ever. So [`validate`] is checked at every prefix, and the functions that extend a history keep it true.

mod raw;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use raw::RawBlock;

/// Who speaks in an entry, as providers know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// User messages and tool results.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name in the database and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One block of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text, never empty.
        text: String,
        /// The provider's block, when it says more than the text: citations, signatures.
        #[serde(default, deserialize_with = "raw::known", skip_serializing_if = "Option::is_none")]
        raw: Option<RawBlock>,
    },
    /// The model asks for a tool.
    ToolUse {
        /// Unique within the run.
        id: String,
        /// The tool's name as the model gave it, known or not.
        name: String,
        /// Its arguments: always a JSON object.
        input: Value,
        /// The provider's block, when it says more than the call: a signature.
        #[serde(default, deserialize_with = "raw::known", skip_serializing_if = "Option::is_none")]
        raw: Option<RawBlock>,
    },
    /// What the tool answered.
    ToolResult {
        /// The `id` of the `ToolUse`.
        tool_use_id: String,
        /// What the model reads.
        content: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// The model's reasoning.
    Thinking {
        /// What can be shown; may be empty (redacted).
        text: String,
        /// The provider's block, when it wants it back.
        #[serde(default, deserialize_with = "raw::known", skip_serializing_if = "Option::is_none")]
        raw: Option<RawBlock>,
    },
    /// A block that means nothing to Houston and goes back as it came: tools on the provider's side and their
    /// results.
    Opaque {
        /// The provider's block.
        raw: RawBlock,
    },
}

impl Block {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), raw: None }
    }
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
}

impl Entry {
    /// An entry of the user's side.
    #[must_use]
    pub fn user(content: Vec<Block>) -> Self {
        Self { role: Role::User, content }
    }

    /// An entry of the model.
    #[must_use]
    pub fn assistant(content: Vec<Block>) -> Self {
        Self { role: Role::Assistant, content }
    }

    /// The ids of the tools this entry asks for, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse { id, .. } => Some(id.as_str()),
            _ => None,
        })
    }

    /// All its text blocks, joined by blank lines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n\n")
    }
}

/// Why a provider would refuse a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first entry is the model's.
    #[error("the history begins with the model")]
    BeginsWithAssistant,
    /// Two entries of the model in a row.
    #[error("entry {index}: the model speaks twice in a row")]
    AssistantTwice {
        /// Which entry, from 0.
        index: usize,
    },
    /// An entry without a block.
    #[error("entry {index} is empty")]
    Empty {
        /// Which entry, from 0.
        index: usize,
    },
    /// A tool call without a result in the next user turn.
    #[error("entry {index}: tool call `{id}` has no result in the next user turn")]
    Unanswered {
        /// Which entry, from 0.
        index: usize,
        /// The call's id.
        id: String,
    },
    /// A result nobody asked for, or a second one for the same call.
    #[error("entry {index}: result for `{id}` answers no open tool call")]
    Stray {
        /// Which entry, from 0.
        index: usize,
        /// The id it names.
        id: String,
    },
    /// Something stands before the results of the user turn that must begin with them.
    #[error("entry {index}: tool results must come first in their turn")]
    ResultsNotFirst {
        /// Which entry, from 0.
        index: usize,
    },
    /// A block that does not belong to the entry's role.
    #[error("entry {index}: a {role} entry may not hold this block", role = role.as_str())]
    WrongRole {
        /// Which entry, from 0.
        index: usize,
        /// Whose entry it is.
        role: Role,
    },
    /// The same call id twice in one entry.
    #[error("entry {index}: tool call id `{id}` is used twice")]
    DuplicateCall {
        /// Which entry, from 0.
        index: usize,
        /// The id.
        id: String,
    },
}

impl Fault {
    /// Which entry is at fault, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        match self {
            Self::BeginsWithAssistant => 0,
            Self::AssistantTwice { index }
            | Self::Empty { index }
            | Self::Unanswered { index, .. }
            | Self::Stray { index, .. }
            | Self::ResultsNotFirst { index }
            | Self::WrongRole { index, .. }
            | Self::DuplicateCall { index, .. } => *index,
        }
    }
}

/// Checks that a provider accepts `entries` with a new message behind them: as [`validate`], and no call is open.
///
/// # Errors
/// The first [`Fault`] found.
pub fn validate_complete(entries: &[Entry]) -> Result<(), Fault> {
    validate(entries)?;
    let complete = complete(entries);
    match entries.get(complete).and_then(|entry| open_call(entry, &entries[complete + 1..])) {
        Some(id) => Err(Fault::Unanswered { index: complete, id: id.to_owned() }),
        None => Ok(()),
    }
}

/// How many of the first entries are complete: all, or those before the last turn of the model, while one of its calls
/// has no result.
#[must_use]
pub fn complete(entries: &[Entry]) -> usize {
    let last = entries.iter().rposition(|entry| entry.role == Role::Assistant);
    last.filter(|last| open_call(&entries[*last], &entries[last + 1..]).is_some()).unwrap_or(entries.len())
}

/// A call of `asking` that none of the entries after it answers.
fn open_call<'e>(asking: &'e Entry, after: &[Entry]) -> Option<&'e str> {
    let answers = |id: &str| {
        after
            .iter()
            .flat_map(|entry| &entry.content)
            .any(|block| matches!(block, Block::ToolResult { tool_use_id, .. } if tool_use_id.as_str() == id))
    };
    asking.tool_uses().find(|id| !answers(id))
}

/// Checks that a provider accepts `entries`, where consecutive user entries count as one turn (each wire joins
/// them). A history that ends in open tool calls is a valid *prefix*: the results are what must come next.
///
/// # Errors
/// The first [`Fault`] found.
pub fn validate(entries: &[Entry]) -> Result<(), Fault> {
    let mut open: Vec<&str> = Vec::new();
    let mut previous = None;
    for (index, entry) in entries.iter().enumerate() {
        if entry.content.is_empty() {
            return Err(Fault::Empty { index });
        }
        match entry.role {
            Role::Assistant => {
                match previous {
                    None => return Err(Fault::BeginsWithAssistant),
                    Some(Role::Assistant) => return Err(Fault::AssistantTwice { index }),
                    Some(Role::User) => {}
                }
                if let Some(id) = open.first() {
                    return Err(Fault::Unanswered { index: index - 1, id: (*id).to_owned() });
                }
                open = assistant_calls(index, entry)?;
            }
            Role::User => answer(index, entry, &mut open)?,
        }
        previous = Some(entry.role);
    }
    Ok(())
}

/// The calls an assistant entry opens.
fn assistant_calls(index: usize, entry: &Entry) -> Result<Vec<&str>, Fault> {
    let mut seen = HashSet::new();
    for block in &entry.content {
        match block {
            Block::ToolResult { .. } => return Err(Fault::WrongRole { index, role: entry.role }),
            Block::ToolUse { id, .. } if !seen.insert(id.as_str()) => {
                return Err(Fault::DuplicateCall { index, id: id.clone() });
            }
            _ => {}
        }
    }
    Ok(entry.tool_uses().collect())
}

/// Closes the open calls that a user entry answers.
fn answer(index: usize, entry: &Entry, open: &mut Vec<&str>) -> Result<(), Fault> {
    let mut other_seen = false;
    for block in &entry.content {
        match block {
            Block::ToolResult { tool_use_id, .. } => {
                if other_seen {
                    return Err(Fault::ResultsNotFirst { index });
                }
                let Some(at) = open.iter().position(|id| id == tool_use_id) else {
                    return Err(Fault::Stray { index, id: tool_use_id.clone() });
                };
                open.remove(at);
            }
            Block::Text { .. } => {
                if let Some(id) = open.first() {
                    return Err(Fault::Unanswered { index, id: (*id).to_owned() });
                }
                other_seen = true;
            }
            _ => return Err(Fault::WrongRole { index, role: entry.role }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> Block {
        Block::ToolUse { id: id.into(), name: "create_note".into(), input: json!({}), raw: None }
    }

    fn result(id: &str) -> Block {
        Block::ToolResult { tool_use_id: id.into(), content: "ok".into(), is_error: false }
    }

    #[test]
    fn a_turn_with_two_tools_is_accepted_at_every_prefix() {
        let history = [
            Entry::user(vec![Block::text("hi")]),
            Entry::assistant(vec![call("a"), call("b")]),
            Entry::user(vec![result("a"), result("b")]),
            Entry::user(vec![Block::text("and?")]),
            Entry::assistant(vec![Block::text("done")]),
        ];
        for end in 0..=history.len() {
            assert_eq!(validate(&history[..end]), Ok(()));
        }
    }

    #[test]
    fn what_providers_refuse_is_refused() {
        let hi = || Entry::user(vec![Block::text("hi")]);
        let asks = || Entry::assistant(vec![call("a"), call("b")]);
        let cases: Vec<(Vec<Entry>, Fault)> = vec![
            (vec![Entry::assistant(vec![Block::text("x")])], Fault::BeginsWithAssistant),
            (vec![hi(), Entry::assistant(vec![])], Fault::Empty { index: 1 }),
            (vec![hi(), asks(), hi()], Fault::Unanswered { index: 2, id: "a".into() }),
            (
                vec![hi(), asks(), Entry::user(vec![result("a")]), Entry::assistant(vec![Block::text("x")])],
                Fault::Unanswered { index: 2, id: "b".into() },
            ),
            (
                vec![hi(), asks(), Entry::user(vec![result("a"), result("a")])],
                Fault::Stray { index: 2, id: "a".into() },
            ),
            (
                vec![hi(), Entry::assistant(vec![call("a"), call("a")])],
                Fault::DuplicateCall { index: 1, id: "a".into() },
            ),
            (vec![hi(), asks(), asks()], Fault::AssistantTwice { index: 2 }),
        ];
        for (history, fault) in cases {
            assert_eq!(validate(&history), Err(fault));
        }
    }

    #[test]
    fn blocks_keep_their_shape_in_storage() {
        let entry = Entry::assistant(vec![Block::text("a"), call("c")]);
        let stored = serde_json::to_value(&entry.content).unwrap();
        assert_eq!(
            stored,
            json!([{"type": "text", "text": "a"},
                   {"type": "tool_use", "id": "c", "name": "create_note", "input": {}}])
        );
    }
}
