//! Replies of the model and their faults.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::plan::Prepared;

/// A fault of a reply. "Chunks" are pieces of content; opening and end mark do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Sends nothing until the client gives up.
    Hang,
    /// Sends nothing after this many chunks, until the client gives up.
    Stall(usize),
    /// Closes the connection after this many chunks.
    CutAfterChunks(usize),
    /// Closes the connection after this many bytes of the stream, also in the middle of an event.
    CutAfterBytes(usize),
    /// Ends the HTTP body properly after this many chunks, without the end mark.
    EndEarly(usize),
    /// Sends an event that is not JSON after this many chunks, then ends the body.
    Garbage(usize),
    /// Sends the provider's "overloaded" error event after this many chunks, then ends the body.
    ErrorEvent(usize),
}

/// Holds answers until it is opened. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases all current and later answers.
    pub fn open(&self) {
        self.0.cancel();
    }

    pub(crate) async fn opened(&self) {
        self.0.cancelled().await;
    }
}

/// A content block of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Tool { name: String, arguments: Value },
}

/// A streamed answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<Part>,
    pub(crate) pieces: usize,
    pub(crate) pace: Duration,
    pub(crate) delay: Duration,
    pub(crate) gate: Option<(Option<usize>, Gate)>,
    /// Whether pieces tell when they were written, and since when that is counted.
    pub(crate) clock: Option<Instant>,
    pub(crate) fault: Option<Fault>,
    pub(crate) usage: (u64, u64),
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Answer(Answer),
    /// A response with an error status.
    Error {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    Prepared(Arc<Prepared>),
}

/// A reply of the model: `Reply::text("Hello!").in_pieces(3)`, `Reply::status(429).header("retry-after", "1")`.
#[derive(Debug, Clone)]
#[must_use]
pub struct Reply(pub(crate) Kind);

impl Reply {
    /// A text, in one piece and without delay.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Part::Text(text.into()))
    }

    /// A tool call.
    pub fn tool(name: impl Into<String>, arguments: Value) -> Self {
        Self::of(Part::Tool { name: name.into(), arguments })
    }

    /// An answer without content, properly ended.
    pub fn empty() -> Self {
        Self(Kind::Answer(Answer { pieces: 1, usage: (10, 5), ..Answer::default() }))
    }

    /// An error response such as 429, 500 or 529, with the body the wire's provider sends.
    pub fn status(status: u16) -> Self {
        Self(Kind::Error { status, headers: Vec::new(), body: String::new() })
    }

    /// A prepared reply: costs the least processor time.
    pub fn prepared(prepared: &Arc<Prepared>) -> Self {
        Self(Kind::Prepared(prepared.clone()))
    }

    /// No answer, until the client gives up.
    pub fn hang() -> Self {
        Self::empty().fault(Fault::Hang)
    }

    /// Adds a text.
    pub fn then_text(self, text: impl Into<String>) -> Self {
        self.then(Part::Text(text.into()))
    }

    /// Adds a tool call; several calls of one answer may run in parallel.
    pub fn then_tool(self, name: impl Into<String>, arguments: Value) -> Self {
        self.then(Part::Tool { name: name.into(), arguments })
    }

    /// Streams every part in this many pieces (fewer if it has fewer characters). Arguments are cut at any character.
    pub fn in_pieces(self, pieces: usize) -> Self {
        self.change(|answer| answer.pieces = pieces.max(1))
    }

    /// Waits this long before each piece.
    pub fn every(self, pace: Duration) -> Self {
        self.change(|answer| answer.pace = pace)
    }

    /// Waits this long before the first byte.
    pub fn after(self, delay: Duration) -> Self {
        self.change(|answer| answer.delay = delay)
    }

    /// Sends nothing until `gate` opens.
    pub fn held_by(self, gate: &Gate) -> Self {
        self.change(|answer| answer.gate = Some((None, gate.clone())))
    }

    /// Stops after `chunks` pieces until `gate` opens.
    pub fn held_after(self, chunks: usize, gate: &Gate) -> Self {
        self.change(|answer| answer.gate = Some((Some(chunks), gate.clone())))
    }

    /// A text of so many pieces, each of which is the time at which it is written, in µs since `clock`, and a space.
    pub fn times(pieces: usize, clock: Instant) -> Self {
        let text = format!("{} ", super::plan::TIME).repeat(pieces);
        Self::text(text).in_pieces(pieces).change(|answer| answer.clock = Some(clock))
    }

    /// Adds a fault.
    pub fn fault(self, fault: Fault) -> Self {
        self.change(|answer| answer.fault = Some(fault))
    }

    /// Sets the reported token counts (default: 10 and 5).
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.change(|answer| answer.usage = (input, output))
    }

    /// Adds a header to an error response, such as `retry-after`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Kind::Error { headers, .. } = &mut self.0 {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Replaces the body of an error response.
    pub fn body(mut self, text: impl Into<String>) -> Self {
        if let Kind::Error { body, .. } = &mut self.0 {
            *body = text.into();
        }
        self
    }

    fn of(part: Part) -> Self {
        Self::empty().then(part)
    }

    fn then(self, part: Part) -> Self {
        self.change(|answer| answer.parts.push(part))
    }

    fn change(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Kind::Answer(answer) = &mut self.0 {
            change(answer);
        }
        self
    }
}

/// Cuts a text into `pieces` pieces of nearly equal size at character boundaries. Returns at least one piece; no piece
/// is empty unless the text is.
pub(crate) fn cut(mut text: &str, pieces: usize) -> Vec<&str> {
    let mut cuts = Vec::new();
    for left in (1..=pieces.max(1)).rev() {
        let (piece, rest) = text.split_at(text.ceil_char_boundary(text.len().div_ceil(left)));
        if !piece.is_empty() || cuts.is_empty() {
            cuts.push(piece);
        }
        text = rest;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn cuts_are_at_character_boundaries_and_complete() {
        for (text, pieces, count) in
            [("häuser", 3, 3), ("", 4, 1), ("ab", 5, 2), ("ääää", 4, 4), ("abc", 0, 1)]
        {
            let cuts = cut(text, pieces);
            assert_eq!((cuts.concat().as_str(), cuts.len()), (text, count), "{text} in {pieces}");
        }
        assert_eq!(cut(&"word ".repeat(20), 20).len(), 20);
    }
}
