//! Token budgets: how many tokens a request may have, and how they are divided.

use serde::{Deserialize, Serialize};

/// Percentage of a model's context window that is kept free, because token counts are estimates.
const RESERVE_PERCENT: u64 = 10;

settings! {
    /// `[context.budget_tokens]` of `jobs/orchestrator.toml`. The answer's share is `limits.max_output_tokens`.
    ///
    /// ```toml
    /// [context.budget_tokens]
    /// total = 48_000
    /// system = 12_000
    /// history = 28_000
    /// tool_results = 14_000
    /// ```
    pub struct TokenBudget {
        /// A request and its answer together.
        pub total: u64 = 48_000;
        /// The prompt (its parts before and after the history) and the tool definitions. What exceeds this share is taken
        /// from the history's share, and logged.
        pub system: u64 = 12_000;
        /// The history; a longer one is compressed.
        pub history: u64 = 28_000;
        /// The tool results within the history.
        pub tool_results: u64 = 14_000;
    }
}

/// Shares that a kind overrides; `None` keeps the value of `orchestrator.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBudgetChanges {
    /// See [`TokenBudget::total`].
    pub total: Option<u64>,
    /// See [`TokenBudget::system`].
    pub system: Option<u64>,
    /// See [`TokenBudget::history`].
    pub history: Option<u64>,
    /// See [`TokenBudget::tool_results`].
    pub tool_results: Option<u64>,
}

/// How many tokens a history may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBudget {
    /// Tokens of the whole history.
    pub history: u64,
    /// Tokens of the tool results within it.
    pub tool_results: u64,
}

impl HistoryBudget {
    /// `percent` percent of this budget; the history's part is reduced by another `less` tokens.
    #[must_use]
    pub fn share(self, percent: u64, less: u64) -> Self {
        let part = |tokens: u64| tokens.saturating_mul(percent) / 100;
        Self { history: part(self.history).saturating_sub(less), tool_results: part(self.tool_results) }
    }
}

impl TokenBudget {
    /// This budget with `changes` applied.
    #[must_use]
    pub fn with(self, changes: TokenBudgetChanges) -> Self {
        Self {
            total: changes.total.unwrap_or(self.total),
            system: changes.system.unwrap_or(self.system),
            history: changes.history.unwrap_or(self.history),
            tool_results: changes.tool_results.unwrap_or(self.tool_results),
        }
    }

    /// What is left for the history beside a prompt and tools of `preamble` tokens and an answer of `answer`
    /// tokens, for a model with a context window of `window` tokens, if that is known.
    pub fn history_budget(&self, preamble: u64, answer: u64, window: Option<u64>) -> HistoryBudget {
        let usable = window.map_or(u64::MAX, |window| window - window / 100 * RESERVE_PERCENT);
        let left = self.total.min(usable).saturating_sub(preamble.saturating_add(answer));
        HistoryBudget { history: self.history.min(left), tool_results: self.tool_results.min(left) }
    }

    /// The name of the first share that is larger than `total`, if there is one.
    pub fn oversized_share(&self) -> Option<&'static str> {
        let shares =
            [("system", self.system), ("history", self.history), ("tool_results", self.tool_results)];
        shares.into_iter().find(|(_, share)| *share > self.total).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_override_only_the_named_shares() {
        let changes: TokenBudgetChanges = toml::from_str("history = 9_000").unwrap();
        let all = TokenBudget::default();
        assert_eq!(all.with(changes), TokenBudget { history: 9_000, ..all });
        assert_eq!(all.oversized_share(), None);
        assert_eq!(TokenBudget { history: all.total + 1, ..all }.oversized_share(), Some("history"));
    }

    proptest! {
        /// A request and its answer stay within the total and within the model's context window.
        #[test]
        fn a_request_never_exceeds_total_or_window(
            total in 1..200_000u64, history in 1..200_000u64, preamble in 0..50_000u64, answer in 0..9_000u64,
            window in proptest::option::of(1..300_000u64)
        ) {
            let budget = TokenBudget { total, system: 0, history, tool_results: history };
            let room = budget.history_budget(preamble, answer, window);
            prop_assert!(room.history <= history && room.tool_results <= history);
            if room.history > 0 {
                let sent = preamble + room.history + answer;
                prop_assert!(sent <= total);
                prop_assert!(window.is_none_or(|window| sent <= window));
            }
        }
    }
}
