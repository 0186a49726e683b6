//! `<think>…</think>` at the beginning of a text: the reasoning of servers that do not separate it.

use std::collections::VecDeque;

use super::pass_on;
use crate::model::Event;

/// Splits a text that arrives in pieces. Only tags at its beginning count: further on, the text may speak of them.
#[derive(Debug, Default)]
pub(crate) struct ThinkTag {
    state: State,
    /// What was received and may be the beginning of a tag.
    held: String,
    /// Whether reasoning was found.
    found: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before the text, where a tag may begin.
    #[default]
    Before,
    /// In the reasoning. Its leading white space is left out.
    Thinking { begun: bool },
    /// In the text, to the end.
    Text,
}

/// What a piece consists of: reasoning, then text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) thinking: String,
    pub(crate) text: String,
}

impl Split {
    /// Adds both to what was received before, and passes them on.
    pub(crate) fn pass_on(self, thinking: &mut String, text: &mut String, out: &mut VecDeque<Event>) {
        pass_on(self.thinking, thinking, Event::Thinking, out);
        pass_on(self.text, text, Event::Text, out);
    }
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

impl ThinkTag {
    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &str) -> Split {
        let mut split = Split::default();
        if self.state == State::Text {
            piece.clone_into(&mut split.text);
            return split;
        }
        self.held.push_str(piece);
        while self.step(&mut split) {}
        split
    }

    /// What was held back, at the end of the answer.
    pub(crate) fn finish(&mut self) -> Split {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Thinking { .. } => Split { thinking: held, text: String::new() },
            State::Before | State::Text => Split { thinking: String::new(), text: held },
        }
    }

    /// The server separates the reasoning: tags are text from now on. Returns what was held back of it.
    pub(crate) fn ignore(&mut self) -> String {
        if self.state != State::Before {
            return String::new();
        }
        self.state = State::Text;
        std::mem::take(&mut self.held)
    }

    /// Moves on in `held`; `false` when it needs more.
    fn step(&mut self, split: &mut Split) -> bool {
        match self.state {
            State::Before => {
                let start = self.held.trim_start();
                if start.len() < OPEN.len() && OPEN.starts_with(start) {
                    return false;
                }
                if let Some(rest) = start.strip_prefix(OPEN) {
                    self.held = rest.to_owned();
                    self.found = true;
                    self.state = State::Thinking { begun: false };
                    return true;
                }
                // White space between the reasoning and the text belongs to neither.
                split.text.push_str(if self.found { start } else { &self.held });
                self.held.clear();
                self.state = State::Text;
                false
            }
            State::Thinking { begun } => {
                let found = self.held.find(CLOSE);
                let end = found.unwrap_or_else(|| self.held.len() - held_back(&self.held));
                let thought = &self.held[..end];
                let thought = if begun { thought } else { thought.trim_start() };
                split.thinking.push_str(thought);
                let begun = begun || !thought.is_empty();
                self.held.drain(..end + found.map_or(0, |_| CLOSE.len()));
                self.state = if found.is_some() { State::Before } else { State::Thinking { begun } };
                found.is_some()
            }
            State::Text => false,
        }
    }
}

/// Length of the longest end of `text` that `</think>` begins with.
fn held_back(text: &str) -> usize {
    let longest = (CLOSE.len() - 1).min(text.len());
    (1..=longest).rev().find(|length| text.ends_with(&CLOSE[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, size: usize) -> (String, String) {
        let (mut tag, mut thinking, mut answer) = (ThinkTag::default(), String::new(), String::new());
        let characters: Vec<char> = text.chars().collect();
        let mut pieces: Vec<Split> =
            characters.chunks(size).map(|piece| tag.push(&piece.iter().collect::<String>())).collect();
        pieces.push(tag.finish());
        for piece in pieces {
            thinking.push_str(&piece.thinking);
            answer.push_str(&piece.text);
        }
        (thinking, answer)
    }

    #[test]
    fn tagged_reasoning_is_split_off_however_it_is_cut() {
        for (text, thinking, answer) in [
            ("<think>\nHm <b>.\n</think>\n\nHello", "Hm <b>.\n", "Hello"),
            (" \n<think>a</think> <think>b</think>c", "ab", "c"),
            ("<think>\n\n</think>\n\nHi", "", "Hi"),
            ("<think>never closed </thin", "never closed </thin", ""),
            (" <thin", "", " <thin"),
            ("  In HTML5 <think>x</think> is no tag", "", "  In HTML5 <think>x</think> is no tag"),
            ("<thinking>x", "", "<thinking>x"),
            ("", "", ""),
        ] {
            for size in [1, 2, 3, 7, 100] {
                assert_eq!(split(text, size), (thinking.to_owned(), answer.to_owned()), "{text} by {size}");
            }
        }
    }
}
