//! Frames as bytes: `id:`, once `retry:`, one line of `data:`, a blank line; LF only.

use std::io::Write as _;

use bytes::Bytes;

use crate::events::agui::Event;
use crate::events::position::Position;

/// A comment of one line. A blank line after it would end an event, and some clients would see an empty one.
pub(crate) const HEARTBEAT: Bytes = Bytes::from_static(b":\n");

/// Frames that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    retry_ms: Option<u32>,
}

impl Frames {
    /// The first frame will tell the client to wait `retry_ms` before it comes back.
    pub(crate) fn new(retry_ms: u32) -> Self {
        Self { bytes: Vec::new(), retry_ms: Some(retry_ms) }
    }

    pub(crate) fn push(&mut self, position: Position, event: &Event<'_>) {
        let bytes = &mut self.bytes;
        if bytes.capacity() == 0 {
            bytes.reserve(256);
        }
        // Writing to memory and numbers, strings and ids as JSON: neither fails.
        let _ = writeln!(bytes, "id: {position}");
        if let Some(ms) = self.retry_ms.take() {
            let _ = writeln!(bytes, "retry: {ms}");
        }
        bytes.extend_from_slice(b"data: ");
        let _ = serde_json::to_writer(&mut *bytes, event);
        bytes.extend_from_slice(b"\n\n");
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What waits; nothing is kept, so that an idle stream costs nothing.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::id::MessageId;

    use super::*;
    use crate::events::agui::EntityId;

    #[test]
    fn a_frame_is_one_line_of_data_and_the_first_says_when_to_come_back() {
        let mut frames = Frames::new(2_000);
        let message_id = EntityId::Message(MessageId(uuid::Uuid::from_u128(1)));
        let event = Event::TextMessageContent { timestamp: None, message_id, delta: "a\n\nb" };
        frames.push(Position::after(3), &event);
        frames.push(Position::after(4), &event);
        let data = r#"data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_00000000000000000000000000000001","delta":"a\n\nb"}"#;
        let expected = format!("id: 3\nretry: 2000\n{data}\n\nid: 4\n{data}\n\n");
        assert_eq!(frames.take().unwrap(), expected.as_bytes());
        assert_eq!(frames.take(), None);
    }
}
