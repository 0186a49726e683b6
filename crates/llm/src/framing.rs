//! Splits a byte stream into events: server-sent events, or one JSON value per line. Input may be cut at any byte.
//!
//! One event is held at a time and borrowed from the buffer, so that a token costs no allocation here. Comments, ids
//! and retry delays are skipped: a model call is never resumed.
//!
//! Bytes that are not UTF-8 are read as U+FFFD, as the standard asks:
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.
//!
//! JSON between the events without a `data:` prefix is reported as well: Gemini and several gateways report errors
//! this way once a stream has started, often over several lines.

use std::borrow::Cow;
use std::ops::Range;

use houston_domain::model::ModelError;

use crate::error;

/// Longest event accepted, in bytes. The Responses API ends with an event that repeats the whole answer together with
/// its instructions and tools.
const LONGEST_EVENT: usize = 4 << 20;
/// The same of a line of JSON, which has one piece of an answer.
const LONGEST_LINE: usize = 1 << 20;

/// Capacity in bytes to which a larger buffer shrinks between chunks, because thousands of idle streams may be open.
const IDLE_CAPACITY: usize = 4 << 10;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FramedEvent<'a> {
    /// The `event` field; empty if there was none.
    pub(crate) name: Cow<'a, str>,
    /// The `data` lines, joined by line feeds.
    pub(crate) data: Cow<'a, str>,
    /// `true` for an event, `false` for JSON outside of any event (then in `data`).
    pub(crate) framed: bool,
}

/// What [`Framing::event`] returns.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Current {
    #[default]
    Nothing,
    Event,
    BareJson,
}

/// Where the data of the event being read is stored.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    /// One line, still in the buffer: the usual case.
    Line(Range<usize>),
    /// Several lines.
    Joined(Vec<u8>),
}

/// The framing of one stream. Call [`push`](Self::push) with the received bytes, then [`advance`](Self::advance) until it
/// returns `false`.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    /// Each line that is not blank is the data of an event without a name.
    pub(crate) by_line: bool,
    buffer: Vec<u8>,
    /// Start of the event being read; everything before it is done.
    event_start: usize,
    /// Start of the next line.
    line_start: usize,
    /// Up to where the next line was searched for its end.
    searched: usize,
    /// The last line ended in CR: an LF directly after it belongs to it.
    after_cr: bool,
    current: Current,
    name: Range<usize>,
    data: Data,
    /// JSON outside of events, as far as it was received.
    bare: BareJson,
}

impl Framing {
    /// One JSON value per line.
    pub(crate) fn lines() -> Self {
        Self { by_line: true, ..Self::default() }
    }

    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Moves to the next event; `false` when more bytes are needed.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` when an event exceeds [`LONGEST_EVENT`], or a line [`LONGEST_LINE`].
    pub(crate) fn advance(&mut self) -> Result<bool, ModelError> {
        match std::mem::take(&mut self.current) {
            Current::Nothing => {}
            Current::Event => self.begin_event(),
            Current::BareJson => self.bare.clear(),
        }
        while let Some(line) = self.next_line() {
            if self.by_line {
                let is_blank = self.buffer[line.clone()].trim_ascii().is_empty();
                self.data = if is_blank { Data::None } else { Data::Line(line) };
            } else if self.is_bare(&line) {
                if self.take_bare(line) {
                    self.current = Current::BareJson;
                    return Ok(true);
                }
                continue;
            } else if !line.is_empty() {
                self.take_field(line);
                continue;
            }
            if matches!(self.data, Data::None) {
                self.begin_event();
            } else {
                self.current = Current::Event;
                let length = self.line_start - self.event_start;
                return self.checked(length).map(|()| true);
            }
        }
        self.compact();
        let longest = self.buffer.len().max(self.bare.bytes().len());
        self.checked(longest).map(|()| false)
    }

    fn checked(&self, length: usize) -> Result<(), ModelError> {
        let (most, what) = match self.by_line {
            true => (LONGEST_LINE, "the provider sent a line longer than 1 MiB"),
            false => (LONGEST_EVENT, "the provider sent an event longer than 4 MiB"),
        };
        if length > most { Err(error::invalid(what)) } else { Ok(()) }
    }

    /// Whether JSON outside of events has started and is incomplete.
    pub(crate) fn is_inside_bare_json(&self) -> bool {
        self.current != Current::BareJson && !self.bare.bytes().is_empty()
    }

    /// Ends the input. Like [`advance`](Self::advance), and also returns a last event without its blank line or line
    /// end.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` when an event exceeds [`LONGEST_EVENT`], or a line [`LONGEST_LINE`].
    pub(crate) fn end(&mut self) -> Result<bool, ModelError> {
        self.push(b"\n\n");
        self.advance()
    }

    /// The current event.
    pub(crate) fn event(&self) -> FramedEvent<'_> {
        let data = match &self.data {
            Data::None => &[],
            Data::Line(range) => &self.buffer[range.clone()],
            Data::Joined(joined) => joined.as_slice(),
        };
        let text = String::from_utf8_lossy;
        if self.current == Current::BareJson {
            return FramedEvent { name: "".into(), data: text(self.bare.bytes()), framed: false };
        }
        FramedEvent { name: text(&self.buffer[self.name.clone()]), data: text(data), framed: true }
    }

    /// Whether a line is JSON outside of events: it starts with a bracket, or continues such JSON.
    fn is_bare(&self, line: &Range<usize>) -> bool {
        let bytes = &self.buffer[line.clone()];
        if !self.bare.bytes().is_empty() {
            return !bytes.is_empty() && !FIELDS.iter().any(|field| bytes.starts_with(field));
        }
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
    }

    /// Adds a line of JSON outside of events; `true` when the JSON is complete.
    fn take_bare(&mut self, line: Range<usize>) -> bool {
        let complete = self.bare.push(&self.buffer[line]);
        if matches!(self.data, Data::None) && self.name.is_empty() {
            self.event_start = self.line_start;
        }
        complete
    }

    fn begin_event(&mut self) {
        self.event_start = self.line_start;
        self.name = 0..0;
        self.data = Data::None;
    }

    /// The next complete line, without its end: LF, in server-sent events CR and CRLF, too.
    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_cr && self.buffer.len() > self.line_start {
            self.after_cr = false;
            if self.buffer[self.line_start] == b'\n' {
                self.line_start += 1;
                self.searched = self.line_start;
            }
        }
        let rest = &self.buffer[self.searched..];
        let found =
            if self.by_line { memchr::memchr(b'\n', rest) } else { memchr::memchr2(b'\n', b'\r', rest) };
        let Some(at) = found else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + at;
        let line = self.line_start..end;
        self.after_cr = self.buffer[end] == b'\r';
        self.line_start = end + 1;
        self.searched = self.line_start;
        Some(line)
    }

    fn take_field(&mut self, line: Range<usize>) {
        let bytes = &self.buffer[line.clone()];
        let colon = memchr::memchr(b':', bytes).unwrap_or(bytes.len());
        let skipped = if bytes.get(colon + 1) == Some(&b' ') { 2 } else { 1 };
        let value = (line.start + colon + skipped).min(line.end)..line.end;
        let name = bytes[..colon].strip_prefix(BOM).unwrap_or(&bytes[..colon]);
        if matches!(name, b"data" | b"event") {
            // The lines collected before are not JSON.
            self.bare.clear();
        }
        match name {
            b"data" => {
                self.data = match std::mem::take(&mut self.data) {
                    Data::None => Data::Line(value),
                    Data::Line(first) => {
                        Data::Joined([&self.buffer[first], b"\n".as_slice(), &self.buffer[value]].concat())
                    }
                    Data::Joined(mut joined) => {
                        joined.push(b'\n');
                        joined.extend_from_slice(&self.buffer[value]);
                        Data::Joined(joined)
                    }
                };
            }
            // An empty name must not point into the buffer, which is compacted before the event is complete.
            b"event" => self.name = if value.is_empty() { 0..0 } else { value },
            // Comments may be sent for hours without a blank line between them.
            _ if matches!(self.data, Data::None) && self.name.is_empty() => {
                self.event_start = self.line_start
            }
            _ => {}
        }
    }

    /// Removes processed bytes from the buffer and adjusts the stored positions.
    fn compact(&mut self) {
        let done = std::mem::take(&mut self.event_start);
        self.buffer.drain(..done);
        self.line_start -= done;
        self.searched -= done;
        if !self.name.is_empty() {
            self.name = self.name.start - done..self.name.end - done;
        }
        if let Data::Line(range) = &mut self.data {
            *range = range.start - done..range.end - done;
        }
        if self.buffer.len() < IDLE_CAPACITY && self.buffer.capacity() > IDLE_CAPACITY {
            self.buffer.shrink_to(IDLE_CAPACITY);
        }
    }
}

/// Byte order mark, sent by some servers at the start.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// Prefixes of the lines of events.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Collects lines of JSON until the opening bracket is closed.
#[derive(Debug, Default)]
struct BareJson {
    bytes: Vec<u8>,
    /// Number of open brackets.
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl BareJson {
    /// The bytes received so far.
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a line; `true` when it closes the first bracket.
    fn push(&mut self, line: &[u8]) -> bool {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        for byte in line {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => self.depth += 1,
                b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth == 0
    }

    /// Discards the collected lines.
    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(mut decoder: Framing, chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut take = |decoder: &Framing| {
            let event = decoder.event();
            events.push((event.name.into_owned(), event.data.into_owned()));
        };
        for chunk in chunks {
            decoder.push(chunk);
            while decoder.advance().unwrap() {
                take(&decoder);
            }
        }
        while decoder.end().unwrap() {
            take(&decoder);
        }
        events
    }

    #[test]
    fn sse_line_ends_and_fields_are_decoded() {
        let text = "\u{feff}data: a\n\ndata:\n\n: ping\n\nevent: x\r\ndata:b\r\ndata:  c\r\n\r\ndata\n\nid: 7\rdata: d\r\rretry: 1\n\ndata: e";
        let events = decode(Framing::default(), &[text.as_bytes()]);
        let expected = [("", "a"), ("", ""), ("x", "b\n c"), ("", ""), ("", "d"), ("", "e")];
        assert_eq!(events, expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
    }

    #[test]
    fn blank_lines_are_skipped_and_last_line_needs_no_end() {
        let events = decode(Framing::lines(), &[b"\n{a}\r\n \n{b}"]);
        assert_eq!(events, ["{a}\r", "{b}"].map(|line| (String::new(), line.to_owned())));
    }

    #[test]
    fn json_outside_of_events_is_reported_unframed() {
        let mut decoder = Framing::default();
        decoder
            .push(b"data: a\n\n{\n  \"error\": {\"message\": \"}{ \\\" data:\"}\n}\n\ndata: b\n\n[1]\n{\n");
        let mut seen = Vec::new();
        while decoder.advance().unwrap() {
            let event = decoder.event();
            seen.push((event.framed, event.data.into_owned()));
        }
        let error = "{\n  \"error\": {\"message\": \"}{ \\\" data:\"}\n}\n";
        let expected = [(true, "a"), (false, error), (true, "b"), (false, "[1]\n")];
        assert_eq!(seen, expected.map(|(framed, data)| (framed, data.to_owned())));
        assert!(decoder.is_inside_bare_json());
    }

    #[test]
    fn endless_line_is_rejected_and_heartbeats_use_no_memory() {
        let events = (Framing::default as fn() -> Framing, ":\n", LONGEST_EVENT);
        for (framing, idle, most) in [events, (Framing::lines, "\n\n", LONGEST_LINE)] {
            let mut decoder = framing();
            let taken = (0..5000).find(|_| {
                decoder.push(&[b'x'; 1024]);
                decoder.advance().is_err()
            });
            assert_eq!(taken, Some(most / 1024), "rejected at the first KiB over the limit");

            let mut decoder = framing();
            for _ in 0..1_000_000 {
                decoder.push(idle.as_bytes());
                assert_eq!(decoder.advance(), Ok(false));
            }
            assert!(decoder.buffer.capacity() <= IDLE_CAPACITY);
        }
    }

    #[test]
    fn empty_event_field_gives_an_empty_name() {
        let mut decoder = Framing::default();
        decoder.push(b"data\n\nevent\n: a comment\nid: 1\n");
        assert_eq!(decoder.advance(), Ok(true));
        assert_eq!(decoder.advance(), Ok(false));
        decoder.push(b"data: a\n\n");
        assert_eq!(decoder.advance(), Ok(true));
        let event = decoder.event();
        assert_eq!((&*event.name, &*event.data), ("", "a"));
    }

    proptest! {
        #[test]
        fn decoding_is_independent_of_splits(
            text in "((data|event|id|:)?:? ?[a-zä{}\"]{0,6}(\n|\r\n|\r){1,2}){0,12}",
            cuts in proptest::collection::vec(0usize..64, 0..12),
        ) {
            let bytes = text.as_bytes();
            let mut chunks = Vec::new();
            let mut rest = bytes;
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            for framing in [Framing::default, Framing::lines] {
                prop_assert_eq!(decode(framing(), &chunks), decode(framing(), &[bytes]));
            }
        }
    }
}
