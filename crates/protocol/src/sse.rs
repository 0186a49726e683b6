//! Server-sent events (`text/event-stream`): the encoder of the API and the decoder of its clients.
//!
//! One event has an `id` (the position to resume from), once per connection a `retry` (ms), and one line of JSON:
//!
//! ```text
//! id: 7:12
//! retry: 2000
//! data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_0190…","delta":"Hello"}
//!
//! ```

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
        self.push_without_id(data);
    }

    /// Appends an event with a name and without an id, as protocols have it whose positions are in the data.
    pub fn push_named(&mut self, name: &str, data: &impl Serialize) {
        let _ = writeln!(self.bytes, "event: {name}");
        self.push_without_id(data);
    }

    /// Appends bytes as they are.
    pub fn push_raw(&mut self, raw: &[u8]) {
        self.bytes.extend_from_slice(raw);
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
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the buffered bytes with their allocation, so that an idle stream holds no memory.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }
}

/// Maximum length of an event, in bytes. Snapshots have at most 6 MiB, so a longer event is not Houston's.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// One complete event. An event that was interrupted by the end of the connection is never returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `id` field: the position to resume from, for `Last-Event-ID`.
    pub id: Option<String>,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// The `retry` field: how long to wait before reconnecting, in ms.
    pub retry_ms: Option<u64>,
}

/// An event of more than 16 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event longer than 16 MiB")]
pub struct TooLong;

/// Decodes the events in a stream of bytes. Each connection needs its own decoder.
///
/// Lines may end in LF, CR or CRLF. Comments (heartbeats) and the `event` field are skipped.
///
/// ```
/// use houston_protocol::sse::SseDecoder;
///
/// let mut decoder = SseDecoder::default();
/// assert!(decoder.push(b"id: 7\nda")?.is_empty());
/// assert_eq!(decoder.push(b"ta: {}\n\n")?[0].data, "{}");
/// # Ok::<(), houston_protocol::sse::TooLong>(())
/// ```
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Whether the last line ended in CR: a following LF belongs to it.
    after_cr: bool,
    open: SseEvent,
    has_data: bool,
}

impl SseDecoder {
    /// Takes the next bytes and returns the events that they complete.
    ///
    /// # Errors
    /// [`TooLong`] when an event exceeds 16 MiB; the decoder must not be used afterwards.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut complete = Vec::new();
        if !bytes.is_empty() && std::mem::take(&mut self.after_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let line = &bytes[..end];
            let ended_by_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if ended_by_cr {
                // The LF of a CRLF may arrive with the next bytes.
                self.after_cr = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            if self.line.is_empty() {
                complete.extend(self.end_line(line));
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                complete.extend(self.end_line(&whole));
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.open.data.len() > MAX_EVENT_BYTES { Err(TooLong) } else { Ok(complete) }
    }

    /// Processes a line; a blank line completes the event.
    fn end_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.open);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match &line[..colon] {
            b"data" if self.has_data => {
                self.open.data.push('\n');
                self.open.data.push_str(&value);
            }
            b"data" => {
                self.has_data = true;
                self.open.data = value.into_owned();
            }
            b"id" => self.open.id = Some(value.into_owned()),
            b"retry" => self.open.retry_ms = value.parse().ok(),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn named_events_have_no_id() {
        let mut encoder = SseEncoder::new(2_000);
        encoder.push_named("response.created", &1);
        encoder.push_without_id(&"c");
        encoder.push_raw(b"data: [DONE]\n\n");
        let expected = "event: response.created\ndata: 1\n\ndata: \"c\"\n\ndata: [DONE]\n\n";
        assert_eq!(String::from_utf8(encoder.take().unwrap()).unwrap(), expected);
    }

    const STREAM: &str = ":\nid: 7\nretry: 2000\ndata: {\"a\":\"ä\"}\n\n:\n:\nid: 7:12\r\ndata: b\r\ndata:  c\r\n\r\n\
                          data\n\n: hm\n\nevent: x\n\nid: 8:f2\rdata:d\r\rid: 9\ndata: never ended";

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::default();
        pieces.iter().flat_map(|piece| decoder.push(piece).unwrap()).collect()
    }

    fn event(id: Option<&str>, data: &str, retry_ms: Option<u64>) -> SseEvent {
        SseEvent { id: id.map(str::to_owned), data: data.to_owned(), retry_ms }
    }

    #[test]
    fn only_complete_events_are_returned() {
        let expected = [
            event(Some("7"), "{\"a\":\"ä\"}", Some(2000)),
            event(Some("7:12"), "b\n c", None),
            event(None, "", None),
            event(Some("8:f2"), "d", None),
        ];
        assert_eq!(read(&[STREAM.as_bytes()]), expected);
    }

    #[test]
    fn bytes_may_be_cut_anywhere() {
        let (bytes, whole) = (STREAM.as_bytes(), read(&[STREAM.as_bytes()]));
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(read(&pieces), whole, "cut at {first} and {second}");
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), whole);
    }

    #[test]
    fn endless_events_are_refused() {
        let mut decoder = SseDecoder::default();
        let refused = (0..40).find_map(|_| decoder.push(&[b'x'; 1 << 20]).err());
        assert_eq!(refused, Some(TooLong));
    }

    proptest! {
        #[test]
        fn encoded_events_are_decoded(
            events in proptest::collection::vec(("[0-9:rdf]{1,8}", any::<String>()), 0..8),
            cut in 1usize..40,
        ) {
            let mut encoder = SseEncoder::new(100);
            for (id, text) in &events {
                encoder.push(id, text);
            }
            let mut bytes = HEARTBEAT.to_vec();
            bytes.extend(encoder.take().unwrap_or_default());
            bytes.extend(HEARTBEAT);
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            let decoded: Vec<(String, String)> = read(&pieces)
                .into_iter()
                .map(|event| (event.id.unwrap(), serde_json::from_str(&event.data).unwrap()))
                .collect();
            prop_assert_eq!(decoded, events);
        }
    }
}
