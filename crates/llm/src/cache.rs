//! What providers take for keeping prompts, and for how long they keep them: what [`CachePolicy::Auto`] is decided by.

use chrono::{DateTime, Utc};
use houston_domain::model::Usage;
use houston_domain::model_policy::{CachePolicy, CachePrices, cheapest};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

use crate::model::{Description, Request};
use crate::price::Price;
use crate::profile::{CacheControl, Profile};

/// The latest prices of what the provider of a model keeps. `None` if it cannot be told how long, or the price is not known: then
/// it keeps prompts as it usually does.
pub fn cache_prices(model: &Description) -> Option<CachePrices> {
    of_profile(model, &model.profile())
}

/// The same by its profile.
pub(crate) fn of_profile(model: &Description, profile: &Profile) -> Option<CachePrices> {
    // Of the longer time of OpenAI no price is known; only who asks for it gets it.
    let (short_s, long_s, is_long_priced) = match profile.cache {
        CacheControl::Marks => (300, 3_600, profile.long_cache),
        CacheControl::Options => (1_800, 43_200, false),
        CacheControl::None | CacheControl::Key | CacheControl::Retention => return None,
    };
    /// Few, so that no tier for long requests applies.
    const TOKENS: u64 = 1_000;
    let price = Price::find(&model.provider, &model.model)?;
    let usual = Usage { input_tokens: TOKENS, ..Usage::default() };
    let cost = |usage: Usage| price.cost(&usage, DateTime::<Utc>::MAX_UTC);
    let plain = cost(usual).filter(|cost| *cost > Decimal::ZERO)?;
    let share = |usage: Usage| (cost(usage)? / plain).to_f64();
    let long = Usage { cache_write_tokens: TOKENS, long_cache_write_tokens: TOKENS, ..usual };
    Some(CachePrices {
        read: share(Usage { cache_read_tokens: TOKENS, ..usual })?,
        write: share(Usage { cache_write_tokens: TOKENS, ..usual })?,
        long_write: if is_long_priced { share(long) } else { None },
        short_s,
        long_s,
    })
}

/// What [`CachePolicy::Auto`] is for a model with these prices; any other policy stays as it is.
pub fn resolved(policy: CachePolicy, pauses: &[u32], prices: Option<&CachePrices>) -> CachePolicy {
    match (policy, prices) {
        (CachePolicy::Auto, None) => CachePolicy::Short,
        (CachePolicy::Auto, Some(prices)) => cheapest(pauses, prices),
        (policy, _) => policy,
    }
}

/// How long the prompt of one request is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As the provider usually does.
    Short,
    /// As long as it can be told to.
    Long,
}

impl Profile {
    /// How long the prompt of `request` is kept; `None`: not at all, also because no further request will begin like it.
    pub(crate) fn lifetime(&self, request: &Request<'_>) -> Option<Lifetime> {
        let has_more = request.cache_key.is_some() || request.system.iter().any(|part| part.cached);
        match request.cache {
            CachePolicy::Off => None,
            _ if !has_more => None,
            CachePolicy::Long if self.long_cache => Some(Lifetime::Long),
            CachePolicy::Short | CachePolicy::Long | CachePolicy::Auto => Some(Lifetime::Short),
        }
    }
}

#[cfg(test)]
mod tests;
