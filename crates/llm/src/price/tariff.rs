//! The prices of a model over time.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use serde::Deserialize;

use crate::price::clause::Clause;
use crate::price::unit::Amounts;

/// Billing options of a request besides its tokens: `service_tier`, `processing`, `speed`, …
pub(crate) type Terms = BTreeMap<String, String>;

/// One model of the price list.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tariff {
    /// The list's id of the model.
    pub(crate) id: Box<str>,
    /// The names of the model.
    #[serde(rename = "match")]
    pub(crate) matches: Clause,
    /// Context window, in input tokens.
    pub(crate) context: Option<u64>,
    /// The last entry in force applies; the first one when none is in force.
    prices: Vec<Priced>,
    #[serde(default)]
    variants: Vec<Variant>,
}

#[derive(Debug, Clone, Deserialize)]
struct Priced {
    #[serde(flatten)]
    when: Condition,
    prices: Amounts,
}

/// Prices for special terms; the first matching variant applies, separately for each unit.
#[derive(Debug, Clone, Deserialize)]
struct Variant {
    when: Terms,
    #[serde(flatten)]
    condition: Condition,
    prices: Amounts,
}

/// When a price is in force.
#[derive(Debug, Clone, Deserialize)]
struct Condition {
    /// First day, UTC.
    from: Option<NaiveDate>,
    /// Daily from the first time until before the second, UTC; past midnight when the second is earlier.
    between: Option<(NaiveTime, NaiveTime)>,
}

impl Condition {
    fn is_in_force(&self, at: DateTime<Utc>) -> bool {
        let time = at.time();
        let in_time = match self.between {
            None => true,
            Some((start, end)) if end < start => time >= start || time < end,
            Some((start, end)) => (start..end).contains(&time),
        };
        in_time && self.from.is_none_or(|from| at.date_naive() >= from)
    }
}

impl Tariff {
    /// Whether it has prices for exactly these terms.
    pub(crate) fn has(&self, terms: &Terms) -> bool {
        self.variants.iter().any(|variant| variant.when == *terms)
    }

    /// The prices in force at `at` with `terms`.
    pub(crate) fn prices(&self, at: DateTime<Utc>, terms: &Terms) -> Amounts {
        let last = self.prices.iter().rev().find(|price| price.when.is_in_force(at));
        let mut prices = last.or(self.prices.first()).map(|price| price.prices.clone()).unwrap_or_default();
        let mut fitting = Amounts::new();
        for variant in &self.variants {
            let fits = variant.when.iter().all(|(name, value)| terms.get(name) == Some(value));
            if fits && variant.condition.is_in_force(at) {
                for (unit, amount) in &variant.prices {
                    fitting.entry(unit.clone()).or_insert_with(|| amount.clone());
                }
            }
        }
        prices.extend(fitting);
        prices
    }
}
