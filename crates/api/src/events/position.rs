//! The position of a client in a stream: the `id` of a frame, which the client returns as `Last-Event-ID`.
//!
//! | `id` | the client has all durable events up to `seq` (here 7), and |
//! |---|---|
//! | `7` | nothing more |
//! | `7:12` | 12 characters of the open message (its start, at least) |
//! | `7:r12` | 12 characters of the open reasoning |
//! | `7:d` | the whole reasoning, closed; its message has not begun |
//! | `…f2` | appended to any of these (`7:f2`, `7:12f2`): 2 frames of the next durable event |
//!
//! Characters are Unicode scalar values.

use std::fmt;
use std::str::FromStr;

/// What was sent of the current iteration and is not confirmed by a durable event yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Open {
    /// Nothing was sent yet.
    #[default]
    Nothing,
    /// This many characters of its reasoning.
    Reasoning(u32),
    /// All of its reasoning, including the end.
    Thought,
    /// This many characters of its message.
    Text(u32),
}

/// A position between two frames of a stream, e.g. `7:12f2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// All durable events up to this one were sent.
    pub(crate) seq: i64,
    /// What was sent of the current iteration beyond them.
    pub(crate) open: Open,
    /// How many frames of the next durable event were sent.
    pub(crate) frames: u32,
}

/// The text is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a stream position")]
pub(crate) struct NoPosition;

impl Position {
    /// The position after all frames of event `seq`.
    pub(crate) fn after(seq: i64) -> Self {
        Self { seq, open: Open::Nothing, frames: 0 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seq)?;
        match self.open {
            Open::Nothing if self.frames == 0 => {}
            Open::Nothing => f.write_str(":")?,
            Open::Reasoning(chars) => write!(f, ":r{chars}")?,
            Open::Thought => f.write_str(":d")?,
            Open::Text(chars) => write!(f, ":{chars}")?,
        }
        if self.frames > 0 {
            write!(f, "f{}", self.frames)?;
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let Some((seq, rest)) = text.split_once(':') else { return Ok(Self::after(number(text)?)) };
        let (open, frames) = match rest.split_once('f') {
            Some((open, frames)) => (open, number(frames)?),
            None => (rest, 0),
        };
        let open = match open.as_bytes() {
            [] if frames > 0 => Open::Nothing,
            [b'r', ..] => Open::Reasoning(number(&open[1..])?),
            b"d" => Open::Thought,
            _ => Open::Text(number(open)?),
        };
        Ok(Self { seq: number(seq)?, open, frames })
    }
}

/// A number without a sign.
fn number<T: FromStr>(text: &str) -> Result<T, NoPosition> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or(NoPosition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip_through_text() {
        for open in [
            Open::Nothing,
            Open::Reasoning(0),
            Open::Reasoning(9),
            Open::Thought,
            Open::Text(0),
            Open::Text(3),
        ] {
            for frames in [0, 2] {
                let position = Position { seq: 7, open, frames };
                assert_eq!(position.to_string().parse(), Ok(position), "{position}");
            }
        }
        assert_eq!(Position::after(0).to_string(), "0");
        assert_eq!("7:12f2".parse(), Ok(Position { seq: 7, open: Open::Text(12), frames: 2 }));
    }

    #[test]
    fn invalid_positions_are_refused() {
        for bad in [
            "",
            "x",
            "-1",
            "+1",
            "1:",
            "1:f",
            "1:x",
            "1:r",
            "1:2:3",
            "1f2",
            "1:dd",
            "1:d2",
            " 1",
            "1:r1f",
            "99999999999999999999",
            "1:4294967296",
        ] {
            assert_eq!(bad.parse::<Position>(), Err(NoPosition), "{bad}");
        }
    }
}
