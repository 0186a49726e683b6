//! What a model costs, and when.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use serde::Deserialize;

use crate::price::clause::Clause;
use crate::price::unit::Amounts;

/// What the provider was asked for beside tokens, and bills for: `service_tier`, `processing`, `speed`, …
pub(crate) type Terms = BTreeMap<String, String>;

/// One model of the table.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tariff {
    /// The table's name for it.
    pub(crate) id: Box<str>,
    /// All names it goes by.
    #[serde(rename = "match")]
    pub(crate) matches: Clause,
    /// Input tokens it takes at most.
    pub(crate) context: Option<u64>,
    /// Of several prices the last one in force holds; the first one when none is.
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

/// Prices for other terms than the usual ones; the first that fits holds, for each unit by itself.
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
    /// From this day on, UTC.
    from: Option<NaiveDate>,
    /// Daily, from the first time to before the second, UTC; over midnight when the second is earlier.
    between: Option<(NaiveTime, NaiveTime)>,
}

impl Condition {
    fn holds(&self, at: DateTime<Utc>) -> bool {
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
    /// The prices in force at `at` on `terms`.
    pub(crate) fn prices(&self, at: DateTime<Utc>, terms: &Terms) -> Amounts {
        let last = self.prices.iter().rev().find(|price| price.when.holds(at));
        let mut prices = last.or(self.prices.first()).map(|price| price.prices.clone()).unwrap_or_default();
        let mut fitting = Amounts::new();
        for variant in &self.variants {
            let fits = variant.when.iter().all(|(name, value)| terms.get(name) == Some(value));
            if fits && variant.condition.holds(at) {
                for (unit, amount) in &variant.prices {
                    fitting.entry(unit.clone()).or_insert_with(|| amount.clone());
                }
            }
        }
        prices.extend(fitting);
        prices
    }
}
