//! The encoder: each event is `id:`, once per connection `retry:`, one line of `data:`, and a blank line; LF only.

use std::fmt::Display;
use std::io::Write as _;

use serde::Serialize;

/// A comment line, which keeps a connection open. No blank line follows: it would end an event, and some clients would
/// report an empty one.
pub const HEARTBEAT: &[u8] = b":\n";

/// A buffer of encoded events that are not written yet.
#[derive(Debug, Default)]
pub struct SseEncoder {
    bytes: Vec<u8>,
    retry_ms: Option<u32>,
}

impl SseEncoder {
    /// The first event asks the client to wait `retry_ms` before it reconnects.
    #[must_use]
    pub fn new(retry_ms: u32) -> Self {
        Self { bytes: Vec::new(), retry_ms: Some(retry_ms) }
    }

    /// Appends an event. `id` must not contain a line break; `data` becomes one line of JSON.
    pub fn push(&mut self, id: impl Display, data: &impl Serialize) {
        let bytes = &mut self.bytes;
        if bytes.capacity() == 0 {
            bytes.reserve(256);
        }
        // Writing to memory does not fail, nor does serializing numbers, strings and ids.
        let _ = writeln!(bytes, "id: {id}");
        if let Some(ms) = self.retry_ms.take() {
            let _ = writeln!(bytes, "retry: {ms}");
        }
        bytes.extend_from_slice(b"data: ");
        let _ = serde_json::to_writer(&mut *bytes, data);
        bytes.extend_from_slice(b"\n\n");
    }

    /// Appends an event without an id: a client that has it resumes as if it had not.
    pub fn push_without_id(&mut self, data: &impl Serialize) {
        self.bytes.extend_from_slice(b"data: ");
        let _ = serde_json::to_writer(&mut self.bytes, data);
        self.bytes.extend_from_slice(b"\n\n");
    }

    /// Appends a frame with a text, which must not contain a line break, and without an id.
    pub fn push_text(&mut self, data: &str) {
        let _ = write!(self.bytes, "data: {data}\n\n");
    }

    /// Number of buffered bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the buffered bytes with their allocation, so that an idle stream holds no memory.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_one_data_line_and_retry_is_sent_once() {
        let mut encoder = SseEncoder::new(2_000);
        encoder.push("3", &"a\n\nb");
        encoder.push("4:12", &"c");
        assert_eq!(encoder.len(), 54);
        let expected = "id: 3\nretry: 2000\ndata: \"a\\n\\nb\"\n\nid: 4:12\ndata: \"c\"\n\n";
        assert_eq!(String::from_utf8(encoder.take().unwrap()).unwrap(), expected);
        assert!(encoder.is_empty() && encoder.take().is_none());
    }
}
