//! Splits a byte stream into events for a [`Decoder`](crate::wire::Decoder): [`sse`] and [`ndjson`] find the
//! boundaries of events, [`reader`] passes them to the decoder.

mod bare_json;
mod ndjson;
mod reader;
mod sse;

use self::ndjson::LineDecoder;
pub(crate) use self::reader::Reader;
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
