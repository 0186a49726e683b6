//! Unread messages, and how many of them a run reads at once.

use serde::Deserialize;

use crate::frame::MessageBlock;
use crate::id::RunId;
use crate::message::Source;

/// An unread message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Unread {
    /// Its position.
    pub seq: i64,
    /// Who wrote it.
    pub source: Source,
    /// The `type` in its metadata.
    pub metadata_type: Option<String>,
    /// The text.
    pub content: String,
    /// Whether it was posted for the open run.
    pub is_for_run: bool,
}

impl Unread {
    /// Whether the text is a frame that Houston wrote. The instructions of a task are no frame: a model wrote them.
    pub fn is_frame(&self) -> bool {
        self.source == Source::System && self.metadata_type.as_deref() != Some("task_started")
    }

    /// The message as it is stored in the history.
    pub fn into_block(self) -> MessageBlock {
        let frame = self.is_frame();
        MessageBlock { text: self.content, frame }
    }
}

/// Limits of one read of unread messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Number of messages.
    pub messages: usize,
    /// Bytes of their texts; a longer message is read alone.
    pub bytes: usize,
}

impl ReadLimits {
    /// How many of the messages are read at once: at least one, if there is one.
    pub fn count(&self, unread: &[Unread]) -> usize {
        let mut bytes = 0_usize;
        unread
            .iter()
            .enumerate()
            .take_while(|(nth, unread)| {
                bytes = bytes.saturating_add(unread.content.len());
                *nth == 0 || (bytes <= self.bytes && *nth < self.messages)
            })
            .count()
    }
}

/// Messages of people and of Houston at positions above `after`, up to `to`: they belong to `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedMessages {
    /// The position before the first one.
    pub after: i64,
    /// The position of the last one.
    pub to: i64,
    /// The run they belong to.
    pub run: RunId,
}
