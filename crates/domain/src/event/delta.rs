//! Text while it is written.

use serde::{Deserialize, Serialize};

use crate::id::MessageId;

/// Which text of an iteration a delta belongs to. An iteration streams its reasoning first, then at most one
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The model's reasoning.
    Reasoning,
    /// The message the user reads.
    Message,
}

/// A piece of text on its way to open streams. It may be lost: the durable event carries the whole text.
///
/// ```json
/// {"message_id": "msg_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "part": "message", "reasoning_chars": 0, "offset": 5, "text": " world"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The message that the iteration is writing.
    pub message_id: MessageId,
    /// Which text of the iteration.
    pub part: Part,
    /// For a message: number of characters of reasoning before it.
    #[serde(default)]
    pub reasoning_chars: u32,
    /// Number of characters of this part before `text`.
    pub offset: u32,
    /// The piece of text.
    pub text: String,
}
