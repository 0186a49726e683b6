//! The LLM history: the entries the model reads, and the rule that every committed prefix obeys.
//!
//! A provider refuses a history whose `tool_use` has no `tool_result` in the next user turn, and would refuse it every
//! time. So [`validate`] is checked for every prefix, and the functions that extend a history preserve it.

mod raw;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachment::SentDocument;
use crate::image::SentImage;

pub use raw::RawBlock;

use crate::tool_call::{ToolCall, ToolErrorCode};

names! {
    /// The author of an entry, as providers name it.
    #[derive(Hash)]
    pub enum Role as "EntryRole" {
        /// The user's side: messages and tool results.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// One block of an entry.
///
/// ```json
/// {"type": "text", "text": "Hello"}
/// {"type": "tool_use", "id": "call_1", "name": "create_note", "input": {"title": "Hotels"}}
/// {"type": "tool_result", "tool_use_id": "call_1", "content": "saved", "is_error": true}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text, never empty.
        text: String,
        /// The provider's block, if it contains more than the text: citations, signatures.
        #[serde(default, deserialize_with = "raw::recognised", skip_serializing_if = "Option::is_none")]
        raw: Option<RawBlock>,
    },
    /// A tool call of the model.
    ToolUse {
        /// The id of the call, unique within the run.
        id: String,
        /// The name of the tool as the model gave it; the tool may not exist.
        name: String,
        /// The arguments: always a JSON object.
        input: Value,
        /// The provider's block, if it contains more than the call: a signature.
        #[serde(default, deserialize_with = "raw::recognised", skip_serializing_if = "Option::is_none")]
        raw: Option<RawBlock>,
    },
    /// The result of a tool call.
    ToolResult {
        /// The `id` of the `ToolUse`.
        tool_use_id: String,
        /// What the model reads.
        content: String,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Why it failed. Calls of earlier versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ToolErrorCode>,
    },
    /// The model's reasoning.
    Thinking {
        /// The readable part; may be empty (redacted).
        text: String,
        /// The provider's block, if the provider needs it back.
        #[serde(default, deserialize_with = "raw::recognised", skip_serializing_if = "Option::is_none")]
        raw: Option<RawBlock>,
    },
    /// An image that the text before it refers to. It is made for a request to a model, and no stored history has one.
    #[serde(skip)]
    Image(SentImage),
    /// A PDF that the text before it refers to. Like an image, no stored history has one.
    #[serde(skip)]
    Document(SentDocument),
    /// A block that Houston does not interpret and sends back unchanged: tools on the provider's side and
    /// their results.
    Opaque {
        /// The provider's block.
        raw: RawBlock,
    },
}

impl Block {
    /// The tool call that it asks for, if it does.
    pub fn call(&self) -> Option<ToolCall> {
        match self {
            Self::ToolUse { id, name, input, .. } => Some(ToolCall::of_block(id, name, input, None)),
            _ => None,
        }
    }

    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), raw: None }
    }

    /// The text of a message or a result: what an agent has read, if the entry is not its own.
    pub fn read(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::ToolResult { content, .. } => Some(content),
            _ => None,
        }
    }
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The author.
    pub role: Role,
    /// Its blocks, in order.
    pub content: Vec<Block>,
}

impl Entry {
    /// An entry of the user's side.
    pub fn user(content: Vec<Block>) -> Self {
        Self { role: Role::User, content }
    }

    /// An entry of the model.
    pub fn assistant(content: Vec<Block>) -> Self {
        Self { role: Role::Assistant, content }
    }

    /// The ids of its tool calls, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &str> {
        tool_uses(&self.content)
    }

    /// All its text blocks, joined by blank lines.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// The ids of the tool calls in these blocks, in order.
fn tool_uses(content: &[Block]) -> impl Iterator<Item = &str> {
    content.iter().filter_map(|block| match block {
        Block::ToolUse { id, .. } => Some(id.as_str()),
        _ => None,
    })
}

/// Why a provider would refuse a history: the index of the faulty entry, from 0, and the id of the call if it is about one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first entry is one of the model.
    #[error("the history begins with the model")]
    BeginsWithAssistant,
    /// Two entries of the model in a row.
    #[error("entry {0}: two entries of the model in a row")]
    AssistantTwice(usize),
    /// An entry without a block.
    #[error("entry {0} is empty")]
    Empty(usize),
    /// A tool call without a result in the next user turn.
    #[error("entry {0}: tool call `{1}` has no result in the next user turn")]
    Unanswered(usize, String),
    /// A result without an open call, or a second one for the same call.
    #[error("entry {0}: result for `{1}` answers no open tool call")]
    Stray(usize, String),
    /// Another block precedes the results with which the user turn must begin.
    #[error("entry {0}: tool results must come first in their turn")]
    ResultsNotFirst(usize),
    /// A block that is not allowed in an entry of this role.
    #[error("entry {0}: a {1} entry may not hold this block")]
    WrongRole(usize, Role),
    /// The same call id twice in one entry.
    #[error("entry {0}: tool call id `{1}` is used twice")]
    DuplicateCall(usize, String),
}

impl Fault {
    /// Index of the faulty entry, from 0.
    pub fn index(&self) -> usize {
        match self {
            Self::BeginsWithAssistant => 0,
            Self::AssistantTwice(index)
            | Self::Empty(index)
            | Self::Unanswered(index, _)
            | Self::Stray(index, _)
            | Self::ResultsNotFirst(index)
            | Self::WrongRole(index, _)
            | Self::DuplicateCall(index, _) => *index,
        }
    }
}

/// The role and blocks of an entry: an [`Entry`], alone or with what is stored beside it.
pub trait EntryView {
    /// The author.
    fn role(&self) -> Role;
    /// The blocks, in order.
    fn content(&self) -> &[Block];
}

impl EntryView for Entry {
    fn role(&self) -> Role {
        self.role
    }

    fn content(&self) -> &[Block] {
        &self.content
    }
}

/// Checks that a provider accepts `entries` followed by a new message: as [`validate`], and no call is open.
///
/// # Errors
/// The first [`Fault`] found.
pub fn validate_complete<T: EntryView>(entries: &[T]) -> Result<(), Fault> {
    validate(entries)?;
    let complete = complete(entries);
    match entries.get(complete).and_then(|entry| open_call(entry, &entries[complete + 1..])) {
        Some(id) => Err(Fault::Unanswered(complete, id.to_owned())),
        None => Ok(()),
    }
}

/// How many of the first entries are complete: all of them, or those before the last turn of the model while one of its
/// calls has no result.
pub fn complete<T: EntryView>(entries: &[T]) -> usize {
    let last = entries.iter().rposition(|entry| entry.role() == Role::Assistant);
    last.filter(|last| open_call(&entries[*last], &entries[last + 1..]).is_some()).unwrap_or(entries.len())
}

/// The first call of `asking` that no entry of `after` answers.
fn open_call<'e, T: EntryView>(asking: &'e T, after: &[T]) -> Option<&'e str> {
    let answers = after.iter().flat_map(EntryView::content).filter_map(|block| match block {
        Block::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
        _ => None,
    });
    let answered: HashSet<&str> = answers.collect();
    tool_uses(asking.content()).find(|id| !answered.contains(id))
}

/// Calls without a result. A lookup takes little time, because clients import histories with many calls.
#[derive(Default)]
struct OpenCalls<'e> {
    /// The blocks that ask for them.
    asking: &'e [Block],
    ids: HashSet<&'e str>,
}

impl<'e> OpenCalls<'e> {
    /// The first open call. Looked for only if there is one: then the history is refused.
    fn first(&self) -> Option<&'e str> {
        let mut asking = tool_uses(self.asking);
        if self.ids.is_empty() { None } else { asking.find(|id| self.ids.contains(id)) }
    }
}

/// Checks that a provider accepts `entries`. Consecutive user entries count as one turn, because each wire joins
/// them. A history that ends in open tool calls is a valid *prefix*: their results must come next.
///
/// # Errors
/// The first [`Fault`] found.
pub fn validate<T: EntryView>(entries: &[T]) -> Result<(), Fault> {
    let mut open = OpenCalls::default();
    let mut previous = None;
    for (index, entry) in entries.iter().enumerate() {
        ensure!(!entry.content().is_empty(), Fault::Empty(index));
        match entry.role() {
            Role::Assistant => {
                match previous {
                    None => return Err(Fault::BeginsWithAssistant),
                    Some(Role::Assistant) => return Err(Fault::AssistantTwice(index)),
                    Some(Role::User) => {}
                }
                if let Some(id) = open.first() {
                    return Err(Fault::Unanswered(index - 1, id.to_owned()));
                }
                open = assistant_calls(index, entry)?;
            }
            Role::User => answer(index, entry, &mut open)?,
        }
        previous = Some(entry.role());
    }
    Ok(())
}

/// The calls that an assistant entry opens.
fn assistant_calls<T: EntryView>(index: usize, entry: &T) -> Result<OpenCalls<'_>, Fault> {
    let mut calls = OpenCalls { asking: entry.content(), ids: HashSet::new() };
    for block in calls.asking {
        match block {
            Block::ToolResult { .. } => return Err(Fault::WrongRole(index, entry.role())),
            Block::ToolUse { id, .. } if !calls.ids.insert(id) => {
                return Err(Fault::DuplicateCall(index, id.clone()));
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Closes the open calls that a user entry answers.
fn answer<T: EntryView>(index: usize, entry: &T, open: &mut OpenCalls<'_>) -> Result<(), Fault> {
    let mut other_seen = false;
    for block in entry.content() {
        match block {
            Block::ToolResult { tool_use_id, .. } => {
                ensure!(!other_seen, Fault::ResultsNotFirst(index));
                ensure!(open.ids.remove(tool_use_id.as_str()), Fault::Stray(index, tool_use_id.clone()));
            }
            Block::Text { .. } => {
                if let Some(id) = open.first() {
                    return Err(Fault::Unanswered(index, id.to_owned()));
                }
                other_seen = true;
            }
            _ => return Err(Fault::WrongRole(index, entry.role())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> Block {
        Block::ToolUse { id: id.into(), name: "create_note".into(), input: json!({}), raw: None }
    }

    fn result(id: &str) -> Block {
        Block::ToolResult { tool_use_id: id.into(), content: "ok".into(), is_error: false, code: None }
    }

    #[test]
    fn every_prefix_of_a_turn_with_two_tools_is_accepted() {
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
    fn histories_that_providers_refuse_are_refused() {
        let hi = || Entry::user(vec![Block::text("hi")]);
        let asks = || Entry::assistant(vec![call("a"), call("b")]);
        let cases: Vec<(Vec<Entry>, Fault)> = vec![
            (vec![Entry::assistant(vec![Block::text("x")])], Fault::BeginsWithAssistant),
            (vec![hi(), Entry::assistant(vec![])], Fault::Empty(1)),
            (vec![hi(), asks(), hi()], Fault::Unanswered(2, "a".into())),
            (
                vec![hi(), asks(), Entry::user(vec![result("a")]), Entry::assistant(vec![Block::text("x")])],
                Fault::Unanswered(2, "b".into()),
            ),
            (vec![hi(), asks(), Entry::user(vec![result("a"), result("a")])], Fault::Stray(2, "a".into())),
            (vec![hi(), Entry::assistant(vec![call("a"), call("a")])], Fault::DuplicateCall(1, "a".into())),
            (vec![hi(), asks(), asks()], Fault::AssistantTwice(2)),
        ];
        for (history, fault) in cases {
            assert_eq!(validate(&history), Err(fault));
        }
    }

    #[test]
    fn many_calls_are_matched_in_any_order() {
        let ids: Vec<String> = (0..100_000).map(|nth| nth.to_string()).collect();
        let history = [
            Entry::user(vec![Block::text("hi")]),
            Entry::assistant(ids.iter().map(|id| call(id)).collect()),
            Entry::user(ids.iter().rev().map(|id| result(id)).collect()),
        ];
        assert_eq!(validate_complete(&history), Ok(()));
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
