//! The prices of the models that may answer.

use chrono::{DateTime, Utc};
use houston_domain::model::Usage;
use houston_llm::{Description, Model, Price};
use rust_decimal::Decimal;

/// Safety margin on estimated input tokens, in percent: see `houston_llm::context_budget`.
const RESERVE_PERCENT: u64 = 10;

/// The price of each model that may answer, if known.
#[derive(Debug, Clone)]
pub struct Prices(Vec<Option<Price>>);

impl Prices {
    /// The prices of `model` and its fallbacks.
    pub(crate) fn of(model: &dyn Model) -> Self {
        let priced = |one: &Description| Price::find(&one.provider, &one.model);
        Self(model.candidates().into_iter().map(priced).collect())
    }

    /// The most that a call may cost, in US dollars: with about `tokens` of input and up to `answer` tokens of output. With
    /// `all`, `None` unless the price of each model that may answer is known.
    pub(crate) fn max_cost(&self, tokens: u64, answer: u32, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let plain = Usage {
            input_tokens: tokens.saturating_add(tokens / 100 * RESERVE_PERCENT),
            output_tokens: u64::from(answer),
            ..Usage::default()
        };
        // Writing to the provider's cache may cost more than plain input.
        let written = Usage { cache_write_tokens: plain.input_tokens, ..plain };
        self.highest_cost(&plain, at, all).max(self.highest_cost(&written, at, all))
    }

    /// What the most expensive model takes for `usage`; with `all`, `None` unless each price is known.
    fn highest_cost(&self, usage: &Usage, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let costs = || self.0.iter().map(|price| price.as_ref().and_then(|price| price.cost(usage, at)));
        if all && costs().any(|cost| cost.is_none()) {
            return None;
        }
        costs().flatten().max()
    }
}
