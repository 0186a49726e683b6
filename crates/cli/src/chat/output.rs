//! What is to be written: decided by [`Screen`](super::screen::Screen), written by
//! [`Terminal`](super::terminal::Terminal).

use crate::output::{self, Painted, Stream, sanitized};

pub(crate) use crate::output::Paint;

/// The kind of a text, which decides the stream it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The agent's answer.
    Reply,
    /// Everything else.
    Info,
}

/// A text of one channel and paint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) channel: Channel,
    pub(crate) paint: Paint,
    pub(crate) text: String,
}

/// Texts in the order in which they are written, and the transient lines below them.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Output {
    pub(crate) pieces: Vec<Piece>,
    /// Lines below all others that the next output replaces; only a terminal shows them. `None`: unchanged.
    pub(crate) transient: Option<Vec<Transient>>,
}

/// Text that is erased later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transient {
    pub(crate) paint: Paint,
    pub(crate) text: String,
    /// How many of its last rows are visible at most.
    pub(crate) rows: usize,
}

impl Output {
    pub(crate) fn push(&mut self, channel: Channel, paint: Paint, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.channel == channel && last.paint == paint => last.text.push_str(text),
            _ => self.pieces.push(Piece { channel, paint, text: text.to_owned() }),
        }
    }

    /// Writes replies to stdout, and the rest to stdout or stderr, without transient lines.
    pub(crate) fn write(&self, info_to_stderr: bool, colour: bool) {
        for piece in &self.pieces {
            let stream =
                if piece.channel == Channel::Info && info_to_stderr { Stream::Err } else { Stream::Out };
            let mut painted = Painted::default();
            painted.text(if colour { piece.paint } else { Paint::Plain }, &piece.text);
            output::paint(stream, &painted);
        }
    }

    /// All texts, for tests; with `marked`, those that are no reply are in brackets.
    #[cfg(test)]
    pub(crate) fn shown(&self, marked: bool) -> String {
        let show = |piece: &Piece| match piece.channel {
            Channel::Info if marked => format!("[{}]", piece.text),
            _ => piece.text.clone(),
        };
        self.pieces.iter().map(show).collect()
    }
}

/// The first line, cut to 200 characters.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = sanitized(text.trim().lines().next().unwrap_or_default()).into_owned();
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_the_first_line_cut_to_200_characters() {
        assert_eq!(one_line("\n first\nsecond"), "first");
        assert_eq!(one_line(&"ä".repeat(300)).chars().count(), 201);
    }
}
