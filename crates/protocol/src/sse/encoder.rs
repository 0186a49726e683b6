//! Events as bytes: `id:`, once `retry:`, one line of `data:`, a blank line; LF only.

use std::fmt::Display;
use std::io::Write as _;

use serde::Serialize;

/// A comment of one line, which keeps a connection open. A blank line after it would end an event, and some clients
/// would see an empty one.
pub const HEARTBEAT: &[u8] = b":\n";

/// Events that wait to be written.
#[derive(Debug, Default)]
pub struct SseEncoder {
    bytes: Vec<u8>,
    retry_ms: Option<u32>,
}

impl SseEncoder {
    /// The first event tells the client to wait `retry_ms` before it reconnects.
    #[must_use]
    pub fn new(retry_ms: u32) -> Self {
        Self { bytes: Vec::new(), retry_ms: Some(retry_ms) }
    }

    /// Appends one event. `id` has no line break; `data` becomes one line of JSON.
    pub fn push(&mut self, id: impl Display, data: &impl Serialize) {
        let bytes = &mut self.bytes;
        if bytes.capacity() == 0 {
            bytes.reserve(256);
        }
        // Writing to memory and numbers, strings and ids as JSON: neither fails.
        let _ = writeln!(bytes, "id: {id}");
        if let Some(ms) = self.retry_ms.take() {
            let _ = writeln!(bytes, "retry: {ms}");
        }
        bytes.extend_from_slice(b"data: ");
        let _ = serde_json::to_writer(&mut *bytes, data);
        bytes.extend_from_slice(b"\n\n");
    }

    /// How many bytes wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the bytes that wait. The buffer is given away with them: an idle stream holds no memory.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_data_and_retry_comes_once() {
        let mut encoder = SseEncoder::new(2_000);
        encoder.push("3", &"a\n\nb");
        encoder.push("4:12", &"c");
        assert_eq!(encoder.len(), 54);
        let expected = "id: 3\nretry: 2000\ndata: \"a\\n\\nb\"\n\nid: 4:12\ndata: \"c\"\n\n";
        assert_eq!(String::from_utf8(encoder.take().unwrap()).unwrap(), expected);
        assert!(encoder.is_empty() && encoder.take().is_none());
    }
}
