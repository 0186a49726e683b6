//! From the bytes of a stream to the events of a [`Decoder`](crate::wire::Decoder): [`sse`] and [`ndjson`] find where
//! one event ends and the next begins, [`reader`] passes them on.

mod bare_json;
mod ndjson;
mod reader;
mod sse;

use self::ndjson::LineDecoder;
pub(crate) use self::reader::Reader;
use self::sse::SseDecoder;
pub(crate) use self::sse::{Fault, SseEvent};

/// The framing of one stream: feed it with [`push`](Self::push), then call [`advance`](Self::advance) until it
/// says `false`.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse(SseDecoder),
    /// A JSON value a line.
    Lines(LineDecoder),
}

impl Framing {
    /// Server-sent events.
    pub(crate) fn sse() -> Self {
        Self::Sse(SseDecoder::default())
    }

    /// A JSON value a line.
    pub(crate) fn lines() -> Self {
        Self::Lines(LineDecoder::default())
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(decoder) => decoder.push(bytes),
            Self::Lines(decoder) => decoder.push(bytes),
        }
    }

    /// Goes to the next event; `false` when more bytes are needed.
    ///
    /// # Errors
    /// [`Fault::TooLong`].
    pub(crate) fn advance(&mut self) -> Result<bool, Fault> {
        match self {
            Self::Sse(decoder) => decoder.advance(),
            Self::Lines(decoder) => decoder.advance(),
        }
    }

    /// Ends the input: like [`advance`](Self::advance) for an event whose end never came.
    ///
    /// # Errors
    /// [`Fault::TooLong`].
    pub(crate) fn end(&mut self) -> Result<bool, Fault> {
        match self {
            Self::Sse(decoder) => decoder.end(),
            Self::Lines(decoder) => decoder.end(),
        }
    }

    /// The event that [`advance`](Self::advance) went to. A line has no name.
    ///
    /// # Errors
    /// [`Fault::NotText`].
    pub(crate) fn event(&self) -> Result<SseEvent<'_>, Fault> {
        match self {
            Self::Sse(decoder) => decoder.event(),
            Self::Lines(decoder) => decoder.line().map(|data| SseEvent { name: "", data, framed: true }),
        }
    }

    /// Whether JSON outside of events was begun and not completed.
    pub(crate) fn is_inside_bare_json(&self) -> bool {
        match self {
            Self::Sse(decoder) => decoder.is_inside_bare_json(),
            Self::Lines(_) => false,
        }
    }
}
