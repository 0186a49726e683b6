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

mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::model::{Tier, Usage};
use rust_decimal::Decimal;
use serde::Deserialize;
use table::{Tariff, Terms, table};

pub use table::Source;

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
pub fn source() -> &'static Source {
    &table().source
}

impl Price {
    /// Looks up a price, e.g. `find("openai", "gpt-5-mini")`; `None` when it is unknown.
    pub fn find(provider: &str, model: &str) -> Option<Self> {
        if provider == "simulated" {
            return Some(Self(Arc::new(Kind::Free)));
        }
        let table = table();
        let (tariff, is_own) = table.model(table.provider(provider)?, model)?;
        Some(Self(Arc::new(Kind::Listed { tariff, is_own })))
    }

    /// Cost in US dollars of a call made at `at`; `None` when the usage is inconsistent.
    pub fn cost(&self, usage: &Usage, at: DateTime<Utc>) -> Option<Decimal> {
        let counts = counts(usage);
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
    /// What is inconsistent in the counts.
    fn cost_of(&self, counts: &Counts, at: DateTime<Utc>, terms: &Terms) -> Result<Decimal, String> {
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
fn counts(usage: &Usage) -> Counts {
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
    all.into_iter().map(|(unit, count)| (unit.into(), count.into())).collect()
}

/// The price list's id of a provider.
pub(crate) fn provider_id(provider: &str) -> Option<&'static str> {
    table().provider(provider).map(|provider| &*provider.id)
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

/// The unit counted once per call.
const CALLS: &str = "requests";

/// A billing unit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Unit {
    /// The unit's name in prices.
    price: Box<str>,
    /// Number of units that a price is for, e.g. 1,000,000.
    per: u64,
    /// Distinguishing properties. A unit with all dimensions of another and more is part of that other.
    dimensions: BTreeMap<Box<str>, Box<str>>,
}

/// All units, by the names of their counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Units(BTreeMap<Box<str>, Unit>);

/// Counts of a call by unit name: `input_tokens`, `cache_read_tokens`, …
pub(crate) type Counts = BTreeMap<Box<str>, Decimal>;

/// A count or cost that exceeds the range of a decimal.
fn overflow() -> String {
    "the counts of the usage are larger than any real call's".to_owned()
}

/// A price that may depend on the length of the input.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Flat(Decimal),
    /// Exceeding the start of a tier changes the price of all tokens, not only of those beyond it.
    Tiered {
        base: Decimal,
        tiers: Vec<(u64, Decimal)>,
    },
}

/// Prices in US dollars, by the units' names in prices.
pub(crate) type Amounts = BTreeMap<Box<str>, Amount>;

impl Amount {
    fn at(&self, input: Decimal) -> Decimal {
        match self {
            Self::Flat(price) => *price,
            Self::Tiered { base, tiers } => {
                let crossed = tiers.iter().filter(|(start, _)| input > Decimal::from(*start));
                crossed.max_by_key(|(start, _)| *start).map_or(*base, |(_, price)| *price)
            }
        }
    }
}

impl Unit {
    fn is_part_of(&self, whole: &Self) -> bool {
        self.dimensions.len() > whole.dimensions.len()
            && whole.dimensions.iter().all(|(name, value)| self.dimensions.get(name) == Some(value))
    }

    /// Whether no dimension contradicts the other's.
    fn agrees_with(&self, other: &Self) -> bool {
        self.dimensions.iter().all(|(name, value)| other.dimensions.get(name).is_none_or(|v| v == value))
    }

    /// Whether its dimensions are those of both units combined.
    fn is_join_of(&self, one: &Self, other: &Self) -> bool {
        let mut joined = one.dimensions.clone();
        joined.extend(other.dimensions.clone());
        self.dimensions == joined
    }
}

impl Units {
    /// Whether a unit with that name exists.
    #[cfg(test)]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Cost of `counts` in US dollars: everything is billed once, at the price of the most specific unit that has
    /// one.
    pub(crate) fn cost(&self, amounts: &Amounts, counts: &Counts) -> Result<Decimal, String> {
        let mut priced: Vec<(&str, &Unit, &Amount)> = Vec::new();
        for (name, unit) in &self.0 {
            if let Some(amount) = amounts.get(&unit.price) {
                priced.push((name, unit, amount));
            }
        }
        // Most specific first: the remainder of the others is billed at their own price.
        priced.sort_by_key(|(_, unit, _)| std::cmp::Reverse(unit.dimensions.len()));
        let tiered = priced.iter().any(|(.., amount)| matches!(amount, Amount::Tiered { .. }));
        let input = if tiered { self.count(counts, "input_tokens")? } else { Decimal::ZERO };
        let (mut rests, mut total): (Vec<(&Unit, Decimal)>, _) = (Vec::new(), Decimal::ZERO);
        for (name, unit, amount) in priced {
            let rest = if name == CALLS { Decimal::ONE } else { self.rest(counts, name, unit, &rests)? };
            rests.push((unit, rest));
            let cost = amount.at(input).checked_mul(rest).and_then(|all| all.checked_div(unit.per.into()));
            total = cost.and_then(|cost| total.checked_add(cost)).ok_or_else(overflow)?;
        }
        Ok(total)
    }

    /// The count of a unit without its parts that are already billed.
    fn rest(
        &self,
        counts: &Counts,
        name: &str,
        unit: &Unit,
        rests: &[(&Unit, Decimal)],
    ) -> Result<Decimal, String> {
        let parts: Decimal =
            rests.iter().filter(|(part, _)| part.is_part_of(unit)).map(|(_, rest)| rest).sum();
        let rest = self.count(counts, name)?.checked_sub(parts).ok_or_else(overflow)?;
        if rest.is_sign_negative() && !rest.is_zero() {
            return Err(format!("the usage counts more of the parts of {name} than of {name} itself"));
        }
        Ok(rest)
    }

    /// The count of `name`: as reported, or 0. An error if only a part of it was reported.
    fn count(&self, counts: &Counts, name: &str) -> Result<Decimal, String> {
        if let Some(count) = counts.get(name) {
            return Ok(*count);
        }
        let Some(unit) = self.0.get(name) else { return Ok(Decimal::ZERO) };
        let reported: Vec<(&str, &Unit)> = counts
            .iter()
            .filter(|(_, count)| !count.is_zero())
            .filter_map(|(name, _)| self.0.get(name).map(|unit| (&**name, unit)))
            .collect();
        let missing = |part: &str| format!("the usage counts {part} but not {name}, of which that is a part");
        if let Some((part, _)) = reported.iter().find(|(_, part)| part.is_part_of(unit)) {
            return Err(missing(part));
        }
        for (nth, (one_name, one)) in reported.iter().enumerate() {
            for (_, other) in &reported[nth + 1..] {
                let overlap = one.agrees_with(other) && !one.is_part_of(other) && !other.is_part_of(one);
                if overlap && unit.is_join_of(one, other) {
                    return Err(missing(one_name));
                }
            }
        }
        Ok(Decimal::ZERO)
    }
}

#[cfg(test)]
mod tests;
