//! Server-sent events from bytes cut anywhere: no I/O.

/// The longest event that is read, in bytes: more is no event, but somebody else's endless answer.
const LONGEST: usize = 16 << 20;

/// One event, complete with its blank line. What was begun when the connection broke is never one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where to resume after it.
    pub(crate) id: Option<String>,
    /// Its `data` lines, joined by line feeds.
    pub(crate) data: String,
    /// How long the server asks to wait before a reconnection, in ms.
    pub(crate) retry_ms: Option<u64>,
}

/// The bytes are no event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event longer than 16 MiB")]
pub(crate) struct TooLong;

/// Finds the events. A new connection needs a new one.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    line: Vec<u8>,
    after_cr: bool,
    open: Frame,
    has_data: bool,
}

impl Frames {
    /// Takes the next bytes and returns the events they complete.
    ///
    /// # Errors
    /// [`TooLong`].
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Frame>, TooLong> {
        let mut complete = Vec::new();
        if !bytes.is_empty() && std::mem::take(&mut self.after_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&bytes[..end]);
            let ended_by_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if ended_by_cr {
                // The LF that belongs to it may come with the next bytes.
                self.after_cr = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            complete.extend(self.end_line());
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.open.data.len() > LONGEST { Err(TooLong) } else { Ok(complete) }
    }

    /// Reads the line; a blank one completes the event.
    fn end_line(&mut self) -> Option<Frame> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        if line.is_empty() {
            let frame = std::mem::take(&mut self.open);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.open.data.push('\n');
                }
                self.open.data.push_str(value);
            }
            "id" => self.open.id = Some(value.to_owned()),
            "retry" => self.open.retry_ms = value.parse().ok(),
            // Heartbeats are comments: lines without a field. Names of events mean nothing here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ":\nid: 7\nretry: 2000\ndata: {\"a\":\"ä\"}\n\n:\n:\nid: 7:12\r\ndata: b\r\ndata:  c\r\n\r\n\
                          data\n\n: hm\n\nevent: x\n\nid: 8:f2\rdata:d\r\rid: 9\ndata: never ended";

    fn read(pieces: &[&[u8]]) -> Vec<Frame> {
        let mut frames = Frames::default();
        pieces.iter().flat_map(|piece| frames.push(piece).unwrap()).collect()
    }

    fn frame(id: Option<&str>, data: &str, retry_ms: Option<u64>) -> Frame {
        Frame { id: id.map(str::to_owned), data: data.to_owned(), retry_ms }
    }

    #[test]
    fn whole_events_are_read_and_nothing_else() {
        let expected = [
            frame(Some("7"), "{\"a\":\"ä\"}", Some(2000)),
            frame(Some("7:12"), "b\n c", None),
            frame(None, "", None),
            frame(Some("8:f2"), "d", None),
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
        let mut frames = Frames::default();
        let refused = (0..40).find_map(|_| frames.push(&[b'x'; 1 << 20]).err());
        assert_eq!(refused, Some(TooLong));
    }
}
