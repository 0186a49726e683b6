//! Blocks of the history as the database has them, and as a model is sent them.

use houston_domain::frame::{FrameMark, MessageBlock};
use houston_domain::history::Block;
use serde::Deserialize;

/// A block as it is stored: one of Houston's own says so.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredBlock {
    #[serde(flatten)]
    block: Block,
    #[serde(default)]
    frame: bool,
}

impl StoredBlock {
    /// The block as a model is sent it. What a model wrote itself, and its provider may have signed, stays as it is.
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
