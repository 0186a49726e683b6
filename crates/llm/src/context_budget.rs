//! How long a conversation has become, and what still fits into a model: what the provider reported last, and an
//! estimate of what was added since. Each entry is estimated once.

use houston_domain::history::Entry;
use houston_domain::model::Usage;

use crate::model::Request;
use crate::tokens;

/// What of a model's context is kept free, in percent: by how much an estimate may be too small. See
/// [`tokens`](crate::tokens) for what was measured.
const RESERVE_PERCENT: u64 = 10;

/// Tokens left beside a conversation of `tokens` and an answer of `answer` in a context of `window`, with the reserve;
/// negative when it does not fit.
#[must_use]
pub fn left(tokens: u64, answer: u64, window: u64) -> i64 {
    let usable = window - window / 100 * RESERVE_PERCENT;
    let used = tokens.saturating_add(answer);
    i64::try_from(usable).unwrap_or(i64::MAX).saturating_sub_unsigned(used)
}

/// Whether a conversation of about `tokens` is too long for a context of `window`, even if the estimate is as much too
/// large as the reserve allows for. Sending it would only be refused.
#[must_use]
pub fn is_clearly_over(tokens: u64, window: u64) -> bool {
    tokens > window.saturating_add(window / 100 * RESERVE_PERCENT)
}

/// The length of one conversation. It only grows: after a compaction, begin a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextBudget {
    /// Tokens of the first entries, with everything before them, as reported or estimated.
    tokens: u64,
    /// How many entries these are.
    entries: usize,
}

impl ContextBudget {
    /// About how many tokens `request` has, for `provider`. Only entries it has not seen are looked at; what
    /// stands around them only the first time, as it is part of what is reported then.
    pub fn tokens(&mut self, request: &Request<'_>, provider: &str) -> u64 {
        if self.entries == 0 || request.entries.len() < self.entries {
            *self = Self { tokens: tokens::of_frame(request, provider), entries: 0 };
        }
        self.add(&request.entries[self.entries..]);
        self.tokens
    }

    /// The provider reported the usage of a call; with its answer the history has `entries` entries.
    pub fn reported(&mut self, usage: &Usage, entries: usize) {
        // Some report nothing.
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
