//! The LLM history: what the model sees, entry by entry, and the rule every committed prefix obeys.
//!
//! A provider refuses a history whose `tool_use` has no `tool_result` in the next user turn, and refuses it
//! for ever. So [`validate`] is checked at every prefix, and the functions that extend a history keep it true.

mod raw;
mod raw_rules;
mod validity;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use raw::RawBlock;
pub use validity::{Fault, Turn, complete, validate, validate_complete};

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

/// The ids of the tools these blocks ask for, in order.
fn tool_uses(content: &[Block]) -> impl Iterator<Item = &str> {
    content.iter().filter_map(|block| match block {
        Block::ToolUse { id, .. } => Some(id.as_str()),
        _ => None,
    })
}
