//! Compression: replacing the beginning of a history that has become too long by a summary.
//!
//! The model is then sent `[summary] + tail`. The tail is the unchanged end of the history: no call is separated
//! from its results, so a provider accepts it as it accepted the whole ([`crate::history::validate`]).

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::agent::token_budget::HistoryBudget;
use crate::frame::{FrameMark, escape, unescape};
use crate::history::{Block, Entry, Role};
use crate::id::{CompressionId, RunId};
use crate::time::Time;

names! {
    /// Why a history was compressed; a name of a newer release is read as the first.
    #[derive(Default)]
    pub enum CompressionReason {
        /// It was longer than `budget_tokens` allows.
        #[default]
        Budget = "budget",
        /// The provider refused it as longer than the model's context window.
        ContextLength = "context_length",
    }
}

/// A compression: a summary that replaces the beginning of a session.
///
/// ```json
/// {"id": "compression_0190…", "run_id": "run_0190…", "session_position": 0, "through_position": 60,
///  "summary": "They planned a trip.", "reason": "budget", "entries_before": 80, "entries_after": 21,
///  "tokens_before": 41000, "tokens_after": 12000, "model": "openai/gpt-5-mini", "cost": "0.0004",
///  "created_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CompressionResponse))]
pub struct Compression {
    pub id: CompressionId,
    /// The run that needed it.
    #[serde(rename = "run_id")]
    pub run: RunId,
    /// The summary replaces the history entries after this position…
    pub session_position: i64,
    /// … up to and including this one.
    pub through_position: i64,
    pub summary: String,
    /// `budget` or `context_length`.
    pub reason: String,
    /// Entries of the request before the compression.
    pub entries_before: usize,
    /// Entries of the request after it, including the summary.
    pub entries_after: usize,
    /// Estimated tokens of the request before the compression.
    pub tokens_before: u64,
    /// Estimated tokens of the request after it.
    pub tokens_after: u64,
    /// The model that wrote it, as `provider/model`; null for an extract.
    pub model: Option<String>,
    /// Cost in US dollars; null if unknown.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    pub created_at: Time,
}

/// Estimated tokens of one or more entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenEstimate {
    /// All blocks.
    pub tokens: u64,
    /// The tool results among them.
    pub tool_results: u64,
}

impl TokenEstimate {
    /// The sum over several entries.
    pub fn sum(estimates: &[Self]) -> Self {
        estimates.iter().fold(Self::default(), |sum, one| Self {
            tokens: sum.tokens.saturating_add(one.tokens),
            tool_results: sum.tool_results.saturating_add(one.tool_results),
        })
    }

    /// Whether it is within `budget`.
    pub fn fits(&self, budget: HistoryBudget) -> bool {
        self.tokens <= budget.history && self.tool_results <= budget.tool_results
    }
}

/// Which end of a history stays verbatim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailPolicy {
    /// Number of turns to keep, the last ones; fewer if they do not fit into `budget`. A turn is a message of the
    /// user and all entries up to the next one.
    pub turns: usize,
    /// Maximum size of the tail, beside the summary.
    pub budget: HistoryBudget,
    /// Minimum number of tokens that the summary must replace; fewer are not worth its cost.
    pub min_gain: u64,
}

/// The number of entries, from the first, that the summary replaces; `None` when no cut gains enough. `estimates`
/// has one item for each entry of `history`.
///
/// The remaining tail begins with a message of the user if possible, otherwise within the last turn, with an answer of
/// the model. If even the last exchange does not fit the budget, it alone is kept.
pub fn cut_position(history: &[Entry], estimates: &[TokenEstimate], policy: &TailPolicy) -> Option<usize> {
    let turns: Vec<usize> = (1..history.len()).filter(|at| begins_turn(&history[*at])).collect();
    let of_turns = &turns[turns.len().saturating_sub(policy.turns.max(1))..];
    let last_turn = turns.last().copied().unwrap_or(0);
    let within: Vec<usize> =
        (last_turn.max(1)..history.len()).filter(|at| may_begin_tail(&history[*at])).collect();
    let fits_budget =
        |at: &usize| estimates.get(*at..).is_some_and(|tail| TokenEstimate::sum(tail).fits(policy.budget));
    let mut longest_first = of_turns.iter().chain(&within).copied();
    let at = longest_first.find(fits_budget).or(within.last().copied()).or(turns.last().copied())?;
    let gain = TokenEstimate::sum(estimates.get(..at)?).tokens;
    (gain >= policy.min_gain.max(1)).then_some(at)
}

/// Whether the entry is a message of the user, not tool results.
fn begins_turn(entry: &Entry) -> bool {
    entry.role == Role::User && may_begin_tail(entry)
}

/// Whether a tail may begin with this entry: it has no results of calls in the entry before.
fn may_begin_tail(entry: &Entry) -> bool {
    !entry.content.iter().any(|block| matches!(block, Block::ToolResult { .. }))
}

/// The element around a summary.
const FRAME: &str = "earlier_conversation";
/// The introduction before the summary.
const ABOUT: &str = "This conversation is longer than what you can see of it. In place of its beginning stands this \
summary; it was not written by the user, and nobody waits for an answer to it.\n\n";

/// The entry that replaces the entries which `summary` summarises. It depends only on summary and mark; the summary is
/// escaped, so it cannot end the frame.
pub fn summary_entry(summary: &str, mark: &FrameMark) -> Entry {
    let content = format!("{ABOUT}{}", escape(mark.remove_mark(summary).trim()));
    Entry::user(vec![Block::text(mark.frame(FRAME, &content))])
}

/// The summary in an entry that [`summary_entry`] created; `None` for any other entry.
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
