//! The LLM history: the entries the model reads, and the rule that every committed prefix obeys.
//!
//! A provider refuses a history whose `tool_use` has no `tool_result` in the next user turn, and would refuse it every
//! time. So [`validate`] is checked for every prefix, and the functions that extend a history preserve it.

mod raw;
mod raw_rules;
mod validity;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachment::SentDocument;
use crate::image::SentImage;

pub use raw::RawBlock;
pub use validity::{EntryView, Fault, complete, validate, validate_complete};

/// The author of an entry, as providers name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user's side: messages and tool results.
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
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), raw: None }
    }

    /// The text of a message or a result: what an agent has read, if the entry is not its own.
    #[must_use]
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
    #[must_use]
    pub fn user(content: Vec<Block>) -> Self {
        Self { role: Role::User, content }
    }

    /// An entry of the model.
    #[must_use]
    pub fn assistant(content: Vec<Block>) -> Self {
        Self { role: Role::Assistant, content }
    }

    /// The ids of its tool calls, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &str> {
        tool_uses(&self.content)
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

/// The ids of the tool calls in these blocks, in order.
fn tool_uses(content: &[Block]) -> impl Iterator<Item = &str> {
    content.iter().filter_map(|block| match block {
        Block::ToolUse { id, .. } => Some(id.as_str()),
        _ => None,
    })
}
