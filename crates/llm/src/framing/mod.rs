//! Splits a byte stream into events: [`SseDecoder`] and [`LineDecoder`] find their boundaries.

mod sse;

use std::borrow::Cow;

use self::sse::SseDecoder;
pub(crate) use self::sse::{Fault, SseEvent};

/// The framing of one stream. Call [`push`](Self::push) with the received bytes, then [`advance`](Self::advance)
/// until it returns `false`.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse(SseDecoder),
    /// One JSON value per line.
    Lines(LineDecoder),
}

impl Framing {
    /// A decoder for server-sent events.
    pub(crate) fn sse() -> Self {
        Self::Sse(SseDecoder::default())
    }

    /// A decoder for one JSON value per line.
    pub(crate) fn lines() -> Self {
        Self::Lines(LineDecoder::default())
    }

    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(decoder) => decoder.push(bytes),
            Self::Lines(decoder) => decoder.push(bytes),
        }
    }

    /// Moves to the next event; `false` when more bytes are needed.
    ///
    /// # Errors
    /// [`Fault::TooLong`] when an event exceeds its size limit.
    pub(crate) fn advance(&mut self) -> Result<bool, Fault> {
        match self {
            Self::Sse(decoder) => decoder.advance(),
            Self::Lines(decoder) => decoder.advance(),
        }
    }

    /// Ends the input. Like [`advance`](Self::advance), and also returns a last event without its terminator.
    ///
    /// # Errors
    /// [`Fault::TooLong`] when an event exceeds its size limit.
    pub(crate) fn end(&mut self) -> Result<bool, Fault> {
        match self {
            Self::Sse(decoder) => decoder.end(),
            Self::Lines(decoder) => decoder.end(),
        }
    }

    /// The current event. A line of JSON has an empty name.
    pub(crate) fn event(&self) -> SseEvent<'_> {
        match self {
            Self::Sse(decoder) => decoder.event(),
            Self::Lines(decoder) => SseEvent { name: "".into(), data: decoder.line(), framed: true },
        }
    }

    /// Whether JSON outside of events has started and is incomplete.
    pub(crate) fn is_inside_bare_json(&self) -> bool {
        match self {
            Self::Sse(decoder) => decoder.is_inside_bare_json(),
            Self::Lines(_) => false,
        }
    }
}

// Decoder for newline-delimited JSON. Input may be cut at any byte. Bytes that are not UTF-8 are read as U+FFFD.
//
// One line is held at a time and borrowed from the buffer, as in [`sse`](super::sse).

/// Longest line accepted, in bytes; 1 MiB.
const LONGEST_LINE: usize = 1 << 20;

/// Capacity in bytes to which a larger buffer shrinks between chunks.
const IDLE_CAPACITY: usize = 4 << 10;

/// The decoder. Call [`push`](Self::push) with the received bytes, then [`advance`](Self::advance) until it returns
/// `false`.
#[derive(Debug, Default)]
pub(crate) struct LineDecoder {
    buffer: Vec<u8>,
    /// Start of the current line in the buffer.
    start: usize,
    /// End of the current line.
    end: usize,
    /// Start of the next line; everything before it is done.
    next: usize,
    /// Up to where the next line was searched for its end.
    searched: usize,
}

impl LineDecoder {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Moves to the next line that is not blank; `false` when more bytes are needed.
    ///
    /// # Errors
    /// [`Fault::TooLong`] when a line exceeds [`LONGEST_LINE`].
    pub(crate) fn advance(&mut self) -> Result<bool, Fault> {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            self.start = self.next;
            self.end = self.searched + at;
            self.next = self.end + 1;
            self.searched = self.next;
            if self.end - self.start > LONGEST_LINE {
                return Err(Fault::TooLong);
            }
            if !self.buffer[self.start..self.end].trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        self.compact();
        if self.buffer.len() > LONGEST_LINE { Err(Fault::TooLong) } else { Ok(false) }
    }

    /// Ends the input. Like [`advance`](Self::advance), and also returns a last line without a line end.
    ///
    /// # Errors
    /// [`Fault::TooLong`] when a line exceeds [`LONGEST_LINE`].
    pub(crate) fn end(&mut self) -> Result<bool, Fault> {
        self.push(b"\n");
        self.advance()
    }

    /// The current line.
    pub(crate) fn line(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.buffer[self.start..self.end])
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.next);
        (self.start, self.end, self.next) = (0, 0, 0);
        self.searched = self.buffer.len();
        if self.buffer.len() < IDLE_CAPACITY && self.buffer.capacity() > IDLE_CAPACITY {
            self.buffer.shrink_to(IDLE_CAPACITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut decoder, mut lines) = (LineDecoder::default(), Vec::new());
        for chunk in chunks {
            decoder.push(chunk);
            while decoder.advance().unwrap() {
                lines.push(decoder.line().into_owned());
            }
        }
        while decoder.end().unwrap() {
            lines.push(decoder.line().into_owned());
        }
        lines
    }

    #[test]
    fn blank_lines_are_skipped_and_last_line_needs_no_end() {
        assert_eq!(decode(std::iter::once(&b"\n{a}\r\n \n{b}"[..])), ["{a}\r", "{b}"]);
    }

    #[test]
    fn endless_line_is_rejected_and_blank_lines_use_no_memory() {
        let mut decoder = LineDecoder::default();
        let taken = (0..2000).find(|_| {
            decoder.push(&[b'x'; 1024]);
            decoder.advance() == Err(Fault::TooLong)
        });
        assert_eq!(taken, Some(1024), "rejected at the first KiB over the limit");

        let mut decoder = LineDecoder::default();
        for _ in 0..1_000_000 {
            decoder.push(b"\n\n");
            assert_eq!(decoder.advance(), Ok(false));
        }
        assert!(decoder.buffer.capacity() <= IDLE_CAPACITY);
    }

    proptest! {
        #[test]
        fn decoding_is_independent_of_splits(text in "([a-zä{}\"]{0,6}\r?\n){0,12}[a-z]{0,3}", size in 1usize..9) {
            let whole = decode(std::iter::once(text.as_bytes()));
            prop_assert_eq!(decode(text.as_bytes().chunks(size)), whole);
        }
    }
}
