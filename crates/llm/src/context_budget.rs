//! Estimates how many tokens a conversation has and whether it fits into a model's context window: the count the
//! provider reported last, plus an estimate for the entries added since. Each entry is estimated once.

use houston_domain::history::Entry;
use houston_domain::model::Usage;

use crate::model::Request;
use crate::tokens;

/// Share of the context window that is left free, in percent: how much too low an estimate may be. See
/// [`tokens`](crate::tokens) for the measured deviation.
const RESERVE_PERCENT: u64 = 10;

/// Tokens left in a context window of `window` after a conversation of `tokens`, an answer of `answer` and the
/// reserve; negative when it does not fit.
pub fn left(tokens: u64, answer: u64, window: u64) -> i64 {
    let usable = window - window / 100 * RESERVE_PERCENT;
    let used = tokens.saturating_add(answer);
    i64::try_from(usable).unwrap_or(i64::MAX).saturating_sub_unsigned(used)
}

/// Whether a conversation of about `tokens` is too long for `window` even if the estimate is too high by the whole
/// reserve. Sending it would only be refused.
pub fn is_clearly_over(tokens: u64, window: u64) -> bool {
    tokens > window.saturating_add(window / 100 * RESERVE_PERCENT)
}

/// Length of one conversation. It only grows: after a compression, start a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextBudget {
    /// Tokens of the first `entries` entries and of everything before them, as reported or estimated.
    tokens: u64,
    /// Number of entries included in `tokens`.
    entries: usize,
}

impl ContextBudget {
    /// Estimates the tokens of `request` for `provider`. Only entries that were not counted yet are estimated. System
    /// prompt, tools and system context are estimated the first time only: later they are part of the reported count.
    pub fn tokens(&mut self, request: &Request<'_>, provider: &str) -> u64 {
        if self.entries == 0 || request.entries.len() < self.entries {
            *self = Self { tokens: tokens::of_frame(request, provider), entries: 0 };
        }
        self.add(&request.entries[self.entries..]);
        self.tokens
    }

    /// Records the usage that the provider reported for a call. `entries` is the length of the history including its
    /// answer.
    pub fn reported(&mut self, usage: &Usage, entries: usize) {
        // Some providers report no usage.
        if usage.input_tokens > 0 {
            self.tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            self.entries = entries;
        }
    }

    fn add(&mut self, entries: &[Entry]) {
        self.tokens = self.tokens.saturating_add(tokens::of_entries(entries));
        self.entries += entries.len();
    }
}

#[cfg(test)]
mod tests;
