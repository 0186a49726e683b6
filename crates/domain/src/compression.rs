//! Compression: a summary takes the place of the beginning of a history that has become too long.
//!
//! What is sent then is `[summary] + tail`, and the tail is the end of the history as it stands: its order is kept, no
//! call is parted from its results, and a provider accepts it as it accepted the whole ([`crate::history::validate`]).

use serde::{Deserialize, Serialize};

use crate::agent::token_budget::Room;
use crate::frame::{FrameMark, escape, unescape};
use crate::history::{Block, Entry, Role};

/// Why a history was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It was longer than `budget_tokens` allow.
    Budget,
    /// The provider said that it was longer than the model takes.
    ContextLength,
}

impl Reason {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::ContextLength => "context_length",
        }
    }

    /// The reason of that name; the budget for a name nobody knows.
    #[must_use]
    pub fn named(name: &str) -> Self {
        if name == Self::ContextLength.as_str() { Self::ContextLength } else { Self::Budget }
    }
}

/// About how many tokens an entry has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// All of it.
    pub tokens: u64,
    /// The results of tools in it.
    pub tool_results: u64,
}

impl Weight {
    /// Of several entries together.
    #[must_use]
    pub fn sum(weights: &[Self]) -> Self {
        weights.iter().fold(Self::default(), |sum, one| Self {
            tokens: sum.tokens.saturating_add(one.tokens),
            tool_results: sum.tool_results.saturating_add(one.tool_results),
        })
    }

    /// Whether there is room for it.
    #[must_use]
    pub fn fits(&self, room: Room) -> bool {
        self.tokens <= room.history && self.tool_results <= room.tool_results
    }
}

/// What of a history is kept word for word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How many turns, the last ones: a message of the user and all that follows up to the next. Fewer, if these have
    /// no room.
    pub turns: usize,
    /// What there is room for beside the summary.
    pub room: Room,
    /// Tokens that a compression must take away at least; less would not be worth its price.
    pub least_gain: u64,
}

/// How many entries, from the first, the summary takes the place of; `weights` has one for each of `history`. `None`
/// when nothing can be taken away that is worth it.
///
/// The tail that is left begins with a message of the user if it can, else within the last turn, with an answer of the
/// model. Where even the last exchange has no room, it is kept alone.
#[must_use]
pub fn cut(history: &[Entry], weights: &[Weight], keep: &Keep) -> Option<usize> {
    let turns: Vec<usize> = (1..history.len()).filter(|at| begins_turn(&history[*at])).collect();
    let of_turns = &turns[turns.len().saturating_sub(keep.turns.max(1))..];
    let last_turn = turns.last().copied().unwrap_or(0);
    let within: Vec<usize> =
        (last_turn.max(1)..history.len()).filter(|at| may_begin(&history[*at])).collect();
    let has_room = |at: &usize| weights.get(*at..).is_some_and(|tail| Weight::sum(tail).fits(keep.room));
    let mut longest_first = of_turns.iter().chain(&within).copied();
    let at = longest_first.find(has_room).or(within.last().copied()).or(turns.last().copied())?;
    let gain = Weight::sum(weights.get(..at)?).tokens;
    (gain >= keep.least_gain.max(1)).then_some(at)
}

/// Whether the user begins to speak: with a message, not with results.
fn begins_turn(entry: &Entry) -> bool {
    entry.role == Role::User && may_begin(entry)
}

/// Whether nothing in it answers the entry before.
fn may_begin(entry: &Entry) -> bool {
    !entry.content.iter().any(|block| matches!(block, Block::ToolResult { .. }))
}

/// The frame around a summary.
const FRAME: &str = "earlier_conversation";
/// What the frame says before the summary.
const ABOUT: &str = "This conversation is longer than what you can see of it. In place of its beginning stands this \
summary; it was not written by the user, and nobody waits for an answer to it.\n\n";

/// The entry that is sent in the place of the entries that `summary` summarises. Always the same for the same summary and
/// mark; the summary is escaped, so it cannot end the frame.
#[must_use]
pub fn entry(summary: &str, mark: &FrameMark) -> Entry {
    let content = format!("{ABOUT}{}", escape(mark.keep_out(summary).trim()));
    Entry::user(vec![Block::text(mark.frame(FRAME, &content))])
}

/// The summary that an entry of [`entry`] holds; `None` for every other entry.
#[must_use]
pub fn summary_of(entry: &Entry, mark: &FrameMark) -> Option<String> {
    if entry.role != Role::User {
        return None;
    }
    let text = entry.text();
    let content = text.strip_prefix(&mark.start(FRAME))?.strip_prefix(ABOUT)?;
    content.strip_suffix(&format!("\n</{FRAME}>")).map(unescape)
}

#[cfg(test)]
mod tests;
