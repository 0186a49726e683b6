//! What the model answers, and what goes wrong with it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::plan::Prepared;

/// What goes wrong. "Chunks" are pieces of content; the opening and the end mark do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not one byte, until the client gives up.
    Hang,
    /// Nothing more after so many chunks, until the client gives up.
    Stall(usize),
    /// The connection is cut after so many chunks.
    CutAfterChunks(usize),
    /// The connection is cut after so many bytes of the stream, in the middle of whatever that is.
    CutAfterBytes(usize),
    /// The stream ends as if all were well after so many chunks, without its end mark.
    EndEarly(usize),
    /// After so many chunks comes something that is no JSON.
    Garbage(usize),
    /// After so many chunks the provider says, inside the stream, that it is overloaded.
    ErrorEvent(usize),
}

/// Holds answers back until it is opened. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets go everything it holds, now and later.
    pub fn open(&self) {
        self.0.cancel();
    }

    pub(crate) async fn opened(&self) {
        self.0.cancelled().await;
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Thinking(String),
    Text(String),
    Tool { name: String, arguments: Value },
}

/// An answer that streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<Part>,
    pub(crate) pieces: usize,
    pub(crate) pace: Duration,
    pub(crate) delay: Duration,
    pub(crate) gate: Option<(Option<usize>, Gate)>,
    pub(crate) fault: Option<Fault>,
    pub(crate) cut_short: bool,
    pub(crate) usage: (u64, u64),
    /// Of the input: read from the provider's cache, and written to it.
    pub(crate) cached: (u64, u64),
}

/// A refusal: a status and a body.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Answer(Answer),
    Refusal(Refusal),
    Prepared(Arc<Prepared>),
}

/// What the model answers.
#[derive(Debug, Clone)]
pub struct Reply(pub(crate) Kind);

impl Reply {
    /// A text, in one piece and at once.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Part::Text(text.into()))
    }

    /// Reasoning; something should follow it.
    #[must_use]
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::of(Part::Thinking(text.into()))
    }

    /// A tool call.
    #[must_use]
    pub fn tool(name: impl Into<String>, arguments: Value) -> Self {
        Self::of(Part::Tool { name: name.into(), arguments })
    }

    /// An answer without anything in it, properly ended.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Answer(Answer { pieces: 1, usage: (10, 5), ..Answer::default() }))
    }

    /// A refusal with a body as the wire's provider writes it, for instance 429, 529 or 500.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self(Kind::Refusal(Refusal { status, headers: Vec::new(), body: String::new() }))
    }

    /// A reply that was rendered before: the cheapest.
    #[must_use]
    pub fn prepared(prepared: &Arc<Prepared>) -> Self {
        Self(Kind::Prepared(prepared.clone()))
    }

    /// Never an answer.
    #[must_use]
    pub fn hang() -> Self {
        Self::empty().fault(Fault::Hang)
    }

    /// One more text.
    #[must_use]
    pub fn then_text(self, text: impl Into<String>) -> Self {
        self.then(Part::Text(text.into()))
    }

    /// One more tool call: several in one answer may run at once.
    #[must_use]
    pub fn then_tool(self, name: impl Into<String>, arguments: Value) -> Self {
        self.then(Part::Tool { name: name.into(), arguments })
    }

    /// Cuts every part into so many pieces (fewer if it has fewer characters). Arguments are cut anywhere.
    #[must_use]
    pub fn in_pieces(self, pieces: usize) -> Self {
        self.change(|answer| answer.pieces = pieces.max(1))
    }

    /// Waits so long before each piece.
    #[must_use]
    pub fn every(self, pace: Duration) -> Self {
        self.change(|answer| answer.pace = pace)
    }

    /// Waits so long before the first byte.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        self.change(|answer| answer.delay = delay)
    }

    /// Is not begun before `gate` opens.
    #[must_use]
    pub fn held_by(self, gate: &Gate) -> Self {
        self.change(|answer| answer.gate = Some((None, gate.clone())))
    }

    /// Is not continued after `chunks` pieces before `gate` opens.
    #[must_use]
    pub fn held_after(self, chunks: usize, gate: &Gate) -> Self {
        self.change(|answer| answer.gate = Some((Some(chunks), gate.clone())))
    }

    /// Goes wrong.
    #[must_use]
    pub fn fault(self, fault: Fault) -> Self {
        self.change(|answer| answer.fault = Some(fault))
    }

    /// Ends because it reached the limit of tokens.
    #[must_use]
    pub fn cut_short(self) -> Self {
        self.change(|answer| answer.cut_short = true)
    }

    /// Reports these tokens; 10 and 5 otherwise.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.change(|answer| answer.usage = (input, output))
    }

    /// Reports that the provider's cache served `read` tokens, and took `written`. Anthropic counts neither among the
    /// input; elsewhere nothing is told of what was written.
    #[must_use]
    pub fn cached(self, read: u64, written: u64) -> Self {
        self.change(|answer| answer.cached = (read, written))
    }

    /// Adds a header to a refusal: `retry-after` and its kin.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Kind::Refusal(refusal) = &mut self.0 {
            refusal.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Replaces the body of a refusal.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        if let Kind::Refusal(refusal) = &mut self.0 {
            refusal.body = body.into();
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

/// Cuts a text into `pieces` nearly equal pieces, between characters; at least one, none of them empty unless
/// the text is.
pub(crate) fn cut(text: &str, pieces: usize) -> Vec<&str> {
    let mut cuts: Vec<&str> = Vec::new();
    let mut rest = text;
    let mut left = pieces.max(1);
    while left > 1 && !rest.is_empty() {
        let mut at = rest.len().div_ceil(left);
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, after) = rest.split_at(at);
        cuts.push(piece);
        rest = after;
        left -= 1;
    }
    if !rest.is_empty() || cuts.is_empty() {
        cuts.push(rest);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn cuts_are_whole_characters_and_add_up() {
        for (text, pieces, count) in
            [("häuser", 3, 3), ("", 4, 1), ("ab", 5, 2), ("ääää", 4, 4), ("abc", 0, 1)]
        {
            let cuts = cut(text, pieces);
            assert_eq!((cuts.concat().as_str(), cuts.len()), (text, count), "{text} in {pieces}");
        }
        assert_eq!(cut(&"word ".repeat(20), 20).len(), 20);
    }
}
