//! Blocks of the history as stored, and their conversion to what a model is sent.

use houston_domain::frame::{FrameMark, MessageBlock};
use houston_domain::history::Block;
use serde::{Deserialize, Serialize};

/// A stored block; `frame` marks text of Houston's own.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredBlock {
    #[serde(flatten)]
    block: Block,
    #[serde(default)]
    frame: bool,
}

/// A text block to be stored.
#[derive(Debug, Serialize)]
pub(crate) struct NewText<'a> {
    pub(crate) r#type: &'static str,
    pub(crate) text: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) frame: bool,
}

impl<'a> NewText<'a> {
    /// A message as a block of the history.
    pub(crate) fn of(message: &'a MessageBlock) -> Self {
        Self { r#type: "text", text: &message.text, frame: message.frame }
    }
}

impl StoredBlock {
    /// The block as a model is sent it, with Houston's frames signed. A block that a model wrote is unchanged,
    /// since its provider may have signed it.
    pub(crate) fn signed(self, mark: &FrameMark) -> Block {
        match self.block {
            Block::Text { text, raw: None } => {
                Block::text(MessageBlock { text, frame: self.frame }.signed(mark))
            }
            Block::ToolResult { tool_use_id, content, is_error } => {
                let content = MessageBlock { text: content, frame: false }.signed(mark);
                Block::ToolResult { tool_use_id, content, is_error }
            }
            block => block,
        }
    }
}
