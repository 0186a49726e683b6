//! What calls cost, in US dollars and to the last digit: by vendored prices, as the provider's own list has them.
//!
//! A model that nobody knows has no price, which is something else than a price of nothing.
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
//! The table is genai-prices' (see [`source`]), with all of its meaning: names and patterns, prices that begin on a
//! day or hold at some hours, tiers, parts of the input that a cache served or took, audio, fees per call. `cargo
//! xtask prices` fetches it anew; `cargo xtask prices-test` compares this with its Python package.

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
use houston_domain::model::Usage;
use rust_decimal::Decimal;

pub use table::Source;

use table::table;
use tariff::{Tariff, Terms};
use unit::{Counts, PriceError};

/// What the calls of one model cost. Cheap to clone; finding it is not, so keep it with the model.
#[derive(Debug, Clone)]
pub struct Price(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    /// Nobody is paid.
    Free,
    Listed {
        tariff: &'static Tariff,
        /// Terms are for the provider's own models.
        own: bool,
    },
}

/// Where the prices come from.
#[must_use]
pub fn source() -> &'static Source {
    &table().source
}

impl Price {
    /// The price of a provider's model, both as they are called here; `None` when it is not known.
    #[must_use]
    pub fn find(provider: &str, model: &str) -> Option<Self> {
        if provider == "simulated" {
            return Some(Self(Arc::new(Kind::Free)));
        }
        let table = table();
        let (tariff, own) = table.model(table.provider(provider)?, model)?;
        Some(Self(Arc::new(Kind::Listed { tariff, own })))
    }

    /// What a call at `at` costs in US dollars; `None` when the usage contradicts itself.
    #[must_use]
    pub fn cost(&self, usage: &Usage, at: DateTime<Utc>) -> Option<Decimal> {
        let counts = counts(usage).ok()?;
        self.cost_of(&counts, at, &Terms::new())
            .inspect_err(|error| tracing::warn!(%error, "a call has no cost"))
            .ok()
    }

    /// What counts cost at `at`, on other terms than the usual ones: `service_tier`, `processing`, ….
    ///
    /// # Errors
    /// A [`PriceError`] when the counts contradict each other.
    fn cost_of(&self, counts: &Counts, at: DateTime<Utc>, terms: &Terms) -> Result<Decimal, PriceError> {
        match &*self.0 {
            Kind::Free => Ok(Decimal::ZERO),
            Kind::Listed { tariff, own } => {
                let usual = Terms::new();
                let amounts = tariff.prices(at, if *own { terms } else { &usual });
                table().units.cost(&amounts, counts)
            }
        }
    }
}

/// The usage as the table counts it.
fn counts(usage: &Usage) -> Result<Counts, PriceError> {
    let mut counts = Counts::default();
    let billed = usage.billed();
    // Where billing has counts of its own, they do not say which of them a cache served.
    let part = |count: u64| if usage.billed.is_none() { count } else { 0 };
    let all = [
        ("input_tokens", billed.input_tokens),
        ("output_tokens", billed.output_tokens),
        ("cache_read_tokens", part(usage.cache_read_tokens)),
        ("cache_write_tokens", part(usage.cache_write_tokens)),
        ("output_reasoning_tokens", part(usage.reasoning_tokens)),
    ];
    for (unit, count) in all {
        counts.add(unit, Decimal::from(count))?;
    }
    Ok(counts)
}

/// How the table calls a provider.
pub(crate) fn provider_id(provider: &str) -> Option<&'static str> {
    table().provider(provider).map(|provider| provider.id())
}

/// How the table calls a model, and how many tokens of input it takes at most, if it says so.
pub(crate) fn listed(provider: &str, model: &str) -> Option<(&'static str, Option<u64>)> {
    let table = table();
    table.model(table.provider(provider)?, model).map(|(tariff, _)| (&*tariff.id, tariff.context))
}

/// The names of `provider`'s models that the table has whole.
pub(crate) fn names(provider: &str) -> Vec<&'static str> {
    table().provider(provider).map(|provider| provider.models().names()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
