//! Where one event of a stream ends and the next begins.

use crate::ndjson::LineDecoder;
use crate::sse::{Fault, SseDecoder, SseEvent};

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
            Self::Lines(decoder) => decoder.line().map(|data| SseEvent { name: "", data }),
        }
    }
}
