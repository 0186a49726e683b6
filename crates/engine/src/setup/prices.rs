//! The prices of the models that may answer.

use chrono::{DateTime, Utc};
use houston_domain::model::{Tier, Usage};
use houston_domain::model_policy::{CachePolicy, CachePrices, Latency, ModelPolicy};
use houston_llm::cache::{cache_prices, resolved};
use houston_llm::{Description, Model, Price};
use rust_decimal::Decimal;

/// Safety margin on estimated input tokens, in percent: see `houston_llm::context_budget`.
const RESERVE_PERCENT: u64 = 10;

/// The price of each model that may answer, if known.
#[derive(Debug, Clone)]
pub struct Prices {
    models: Vec<Option<Price>>,
    /// What the providers take for what they keep.
    caches: Vec<Option<CachePrices>>,
    /// Whether requests may be kept for the longer time, and be answered by a fast lane. Both cost more.
    may_last: bool,
    may_be_fast: bool,
}

impl Prices {
    /// The prices of `model` and its fallbacks.
    pub(crate) fn of(model: &dyn Model) -> Self {
        let priced = |one: &Description| Price::find(&one.provider, &one.model);
        let models = model.candidates().into_iter().map(priced).collect();
        let caches = model.candidates().into_iter().map(cache_prices).collect();
        Self { models, caches, may_last: false, may_be_fast: false }
    }

    /// The prices for runs with this policy, after these pauses. `None`: they are the same.
    pub(crate) fn with_policy(&self, policy: ModelPolicy, pauses: &[u32]) -> Option<Self> {
        let cache = policy.cache.unwrap_or_default();
        let lasts =
            |prices: &Option<CachePrices>| resolved(cache, pauses, prices.as_ref()) == CachePolicy::Long;
        let may_last = match cache {
            CachePolicy::Auto if pauses.is_empty() => false,
            CachePolicy::Auto | CachePolicy::Long => self.caches.iter().any(lasts),
            CachePolicy::Off | CachePolicy::Short => false,
        };
        let may_be_fast = policy.latency == Some(Latency::Fast);
        (may_last || may_be_fast).then(|| Self { may_last, may_be_fast, ..self.clone() })
    }

    /// The most that a call may cost, in US dollars: with about `tokens` of input and up to `answer` tokens of output. With
    /// `all`, `None` unless the price of each model that may answer is known.
    pub(crate) fn max_cost(&self, tokens: u64, answer: u32, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let plain = Usage {
            input_tokens: tokens.saturating_add(tokens / 100 * RESERVE_PERCENT),
            output_tokens: u64::from(answer),
            tier: self.may_be_fast.then_some(Tier::Priority),
            ..Usage::default()
        };
        // Writing to the provider's cache may cost more than plain input.
        let long_cache_write_tokens = if self.may_last { plain.input_tokens } else { 0 };
        let written = Usage { cache_write_tokens: plain.input_tokens, long_cache_write_tokens, ..plain };
        self.highest_cost(&plain, at, all).max(self.highest_cost(&written, at, all))
    }

    /// What the most expensive model takes for `usage`; with `all`, `None` unless each price is known.
    fn highest_cost(&self, usage: &Usage, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let costs = || self.models.iter().map(|price| price.as_ref().and_then(|price| price.cost(usage, at)));
        if all && costs().any(|cost| cost.is_none()) {
            return None;
        }
        costs().flatten().max()
    }
}
