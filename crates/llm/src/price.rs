//! Computes the cost of model calls in US dollars, exactly, from vendored price lists.
//!
//! A model that no list contains has no price (`None`), which does not mean that it is free.
//!
//! ```
//! # use houston_llm::Price;
//! # use houston_domain::model::Usage;
//! let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
//! let price = Price::find("openai", "gpt-5-mini").unwrap();
//! assert_eq!(price.cost(&usage, "2026-11-22T12:00:00Z".parse().unwrap()).unwrap().to_string(), "0.00045");
//! assert!(Price::find("ollama", "gpt-oss:20b").is_none());
//! ```
//!
//! The price list is genai-prices' (see [`source`]), with all its features: names and patterns, prices valid from a
//! day on or at certain hours, tiers, cached input, audio, fees per call. `cargo xtask prices` updates it; `cargo
//! xtask prices-test` compares the costs with those of its Python package.

mod clause;
#[cfg(test)]
mod extract;
#[cfg(test)]
mod oracle;
mod table;
mod tariff;
mod unit;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::model::{Tier, Usage};
use rust_decimal::Decimal;

pub use table::Source;

use table::table;
use tariff::{Tariff, Terms};
use unit::{Counts, PriceError};

/// The price of one model's calls. Cheap to clone; looking it up is not, so store it with the model.
#[derive(Debug, Clone)]
pub struct Price(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    /// Simulated models cost nothing.
    Free,
    Listed {
        tariff: &'static Tariff,
        /// Whether the model is the provider's own: only then do [`Terms`] apply.
        is_own: bool,
    },
}

/// Package, version, date and licence of the price list.
#[must_use]
pub fn source() -> &'static Source {
    &table().source
}

impl Price {
    /// Looks up a price, e.g. `find("openai", "gpt-5-mini")`; `None` when it is unknown.
    #[must_use]
    pub fn find(provider: &str, model: &str) -> Option<Self> {
        if provider == "simulated" {
            return Some(Self(Arc::new(Kind::Free)));
        }
        let table = table();
        let (tariff, is_own) = table.model(table.provider(provider)?, model)?;
        Some(Self(Arc::new(Kind::Listed { tariff, is_own })))
    }

    /// Cost in US dollars of a call made at `at`; `None` when the usage is inconsistent.
    #[must_use]
    pub fn cost(&self, usage: &Usage, at: DateTime<Utc>) -> Option<Decimal> {
        let counts = counts(usage).ok()?;
        let (terms, share) = self.terms(usage.tier);
        let cost = self
            .cost_of(&counts, at, &terms)
            .inspect_err(|error| tracing::warn!(%error, "the cost of a call cannot be computed"))
            .ok()?;
        Some(cost * share)
    }

    /// The terms of the price list on which the tier of a call is billed, and the share of their price that it costs. Flex costs what
    /// a batch costs where the list does not have it (<https://developers.openai.com/api/docs/guides/flex-processing>,
    /// <https://ai.google.dev/gemini-api/docs/optimization>), and a batch half of the usual price, as with all providers that have
    /// batches. OpenAI's windows, which the list does not have, cost 30 and 40 % less:
    /// <https://developers.openai.com/api/docs/guides/cost-optimization>.
    fn terms(&self, tier: Option<Tier>) -> (Terms, Decimal) {
        let of = |name: &str, value: &str| Terms::from([(name.to_owned(), value.to_owned())]);
        let (flex, batch) = (of("service_tier", "flex"), of("processing", "batch"));
        let has = |terms: &Terms| matches!(&*self.0, Kind::Listed { tariff, .. } if tariff.has(terms));
        let share = |hundredths| (Terms::new(), Decimal::new(hundredths, 2));
        match tier {
            None => (Terms::new(), Decimal::ONE),
            Some(Tier::Flex) if has(&flex) => (flex, Decimal::ONE),
            Some(Tier::Flex | Tier::Batch) if has(&batch) => (batch, Decimal::ONE),
            Some(Tier::Flex | Tier::Batch) => share(50),
            Some(Tier::TwoHours) => share(70),
            Some(Tier::EightHours) => share(60),
            Some(Tier::Priority) => (of("service_tier", "priority"), Decimal::ONE),
        }
    }

    /// Cost in US dollars of `counts` at `at`, on special terms such as `service_tier` or `processing`.
    ///
    /// # Errors
    /// A [`PriceError`] when the counts are inconsistent.
    fn cost_of(&self, counts: &Counts, at: DateTime<Utc>, terms: &Terms) -> Result<Decimal, PriceError> {
        match &*self.0 {
            Kind::Free => Ok(Decimal::ZERO),
            Kind::Listed { tariff, is_own } => {
                let none = Terms::new();
                let amounts = tariff.prices(at, if *is_own { terms } else { &none });
                table().units.cost(&amounts, counts)
            }
        }
    }
}

/// Converts usage into the units of the price list.
fn counts(usage: &Usage) -> Result<Counts, PriceError> {
    let mut counts = Counts::default();
    let billed = usage.billed();
    // Billed counts that differ from the reported ones do not say how many of the tokens were cached.
    let part = |count: u64| if usage.billed.is_none() { count } else { 0 };
    let apart = usage.apart;
    let all = [
        ("input_tokens", billed.input_tokens),
        ("output_tokens", billed.output_tokens),
        ("cache_read_tokens", part(usage.cache_read_tokens)),
        ("cache_write_tokens", part(usage.cache_write_tokens)),
        ("cache_write_1h_tokens", part(usage.long_cache_write_tokens)),
        ("output_reasoning_tokens", part(usage.reasoning_tokens)),
        ("input_audio_tokens", part(apart.input_audio_tokens.into())),
        ("cache_audio_read_tokens", part(apart.cached_audio_tokens.into())),
        ("output_audio_tokens", part(apart.output_audio_tokens.into())),
        ("input_image_tokens", part(apart.input_image_tokens.into())),
        ("cache_image_read_tokens", part(apart.cached_image_tokens.into())),
        ("output_image_tokens", part(apart.output_image_tokens.into())),
        ("web_searches", apart.web_searches.into()),
    ];
    for (unit, count) in all {
        counts.add(unit, Decimal::from(count))?;
    }
    Ok(counts)
}

/// The price list's id of a provider.
pub(crate) fn provider_id(provider: &str) -> Option<&'static str> {
    table().provider(provider).map(|provider| provider.id())
}

/// The price list's id of a model, and its context window in tokens, if listed.
pub(crate) fn listed(provider: &str, model: &str) -> Option<(&'static str, Option<u64>)> {
    let table = table();
    table.model(table.provider(provider)?, model).map(|(tariff, _)| (&*tariff.id, tariff.context))
}

/// All model names of `provider` that the list contains literally.
pub(crate) fn names(provider: &str) -> Vec<&'static str> {
    table().provider(provider).map(|provider| provider.models().names()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
