//! Events from bytes cut anywhere, without I/O.

/// The longest event that is read, in bytes. Snapshots have 6 MiB at most; more is not Houston's stream.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event, complete with its blank line. What was begun when the connection broke is never one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `id` field: where to resume after it, as `Last-Event-ID`.
    pub id: Option<String>,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// The `retry` field: how long to wait before a reconnection, in ms.
    pub retry_ms: Option<u64>,
}

/// An event of more than 16 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event longer than 16 MiB")]
pub struct TooLong;

/// Finds the events in a stream of bytes. Each connection needs its own.
///
/// Lines may end in LF, CR or CRLF. Comments (heartbeats) and the `event` field are skipped.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    open: SseEvent,
    has_data: bool,
}

impl SseDecoder {
    /// Takes the next bytes and returns the events they complete.
    ///
    /// # Errors
    /// [`TooLong`] when an event exceeds 16 MiB; the decoder is of no use afterwards.
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
                // The LF that belongs to it may come with the next bytes.
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

    /// Reads a line; a blank one completes the event.
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
    use crate::sse::{HEARTBEAT, SseEncoder};

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
    fn whole_events_are_read_and_nothing_else() {
        let expected = [
            event(Some("7"), "{\"a\":\"ä\"}", Some(2000)),
            event(Some("7:12"), "b\n c", None),
            event(None, "", None),
            event(Some("8:f2"), "d", None),
        ];
        assert_eq!(read(&[STREAM.as_bytes()]), expected);
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
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
    fn an_event_without_an_end_is_refused() {
        let mut decoder = SseDecoder::default();
        let refused = (0..40).find_map(|_| decoder.push(&[b'x'; 1 << 20]).err());
        assert_eq!(refused, Some(TooLong));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
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
