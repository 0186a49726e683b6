//! The vendored price list, parsed on first use.
//!
//! `data/prices.json` is genai-prices' list, reduced to the providers supported here; `cargo xtask prices` updates
//! it. Providers are parsed when they are first looked up.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use regex_lite::Regex;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[cfg(test)]
use crate::price::tests::extract::Extractor;
use crate::price::{Amounts, Units};

/// Origin of vendored data.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Source {
    /// Name of the package.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// The day it was downloaded.
    pub date: NaiveDate,
    /// Licence, e.g. `MIT`.
    pub licence: String,
    /// Copyright notice.
    pub copyright: String,
}

/// Provider names of Houston whose id in the list differs.
const OTHER_NAMES: [(&str, &str); 1] = [("zhipu", "zai")];

/// The price list.
pub(crate) struct Table {
    pub(crate) source: Source,
    pub(crate) units: Units,
    providers: Vec<Provider>,
}

/// One provider of the list.
pub(crate) struct Provider {
    /// Its name in the list.
    pub(crate) id: Box<str>,
    /// Other names of the provider.
    matches: Option<Clause>,
    text: &'static str,
    models: OnceLock<Models>,
}

/// The models of a provider.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Models {
    /// Providers whose models it also offers, at their prices.
    #[serde(default)]
    fallback: Vec<Box<str>>,
    #[cfg(test)]
    #[serde(default)]
    pub(crate) extractors: Vec<Extractor>,
    models: Vec<Tariff>,
}

#[derive(Deserialize)]
struct File {
    source: Source,
    units: Units,
    #[serde(borrow)]
    providers: Vec<&'static RawValue>,
}

#[derive(Deserialize)]
struct Head {
    id: Box<str>,
    #[serde(rename = "match")]
    matches: Option<Clause>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

/// The price list.
pub(crate) fn table() -> &'static Table {
    &TABLE
}

impl Table {
    fn read() -> Self {
        let file: File = crate::of_data(include_str!("../../data/prices.json"));
        let provider = |text: &'static RawValue| {
            let Head { id, matches } = crate::of_data(text.get());
            Provider { id, matches, text: text.get(), models: OnceLock::new() }
        };
        Self {
            source: file.source,
            units: file.units,
            providers: file.providers.into_iter().map(provider).collect(),
        }
    }

    /// Finds a provider by its name here or in the list.
    pub(crate) fn provider(&self, name: &str) -> Option<&Provider> {
        let name = name.trim().to_lowercase();
        let name = OTHER_NAMES.iter().find(|(ours, _)| *ours == name).map_or(&*name, |(_, theirs)| theirs);
        let by_id = self.providers.iter().find(|provider| &*provider.id == name);
        by_id.or_else(|| {
            let fits =
                |provider: &&Provider| provider.matches.as_ref().is_some_and(|clause| clause.is_match(name));
            self.providers.iter().find(fits)
        })
    }

    /// Finds a model of `provider` by name, and whether it is the provider's own: Azure offers OpenAI's at OpenAI's
    /// prices.
    pub(crate) fn model<'t>(&'t self, provider: &'t Provider, name: &str) -> Option<(&'t Tariff, bool)> {
        let name = name.to_lowercase();
        self.matching(provider, &name).or_else(|| {
            let dashed = with_dashed_dates(&name);
            (dashed != name).then(|| self.matching(provider, &dashed)).flatten()
        })
    }

    fn matching<'t>(&'t self, provider: &'t Provider, name: &str) -> Option<(&'t Tariff, bool)> {
        let own = provider.models();
        if let Some(tariff) = own.matching(name) {
            return Some((tariff, true));
        }
        let others = own.fallback.iter().filter_map(|id| self.providers.iter().find(|other| other.id == *id));
        others.into_iter().find_map(|other| other.models().matching(name)).map(|tariff| (tariff, false))
    }
}

impl Provider {
    /// The provider's models.
    pub(crate) fn models(&self) -> &Models {
        self.models.get_or_init(|| crate::of_data(self.text))
    }
}

impl Models {
    fn matching(&self, name: &str) -> Option<&Tariff> {
        self.models.iter().find(|model| model.matches.is_match(name))
    }

    /// All names that the list contains literally.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for model in &self.models {
            names.push(&*model.id);
            model.matches.names(&mut names);
        }
        names
    }
}

/// Rewrites `-20261231` to `-2026-12-31`: some gateways write dates without dashes.
fn with_dashed_dates(name: &str) -> String {
    let mut rest = name;
    let mut dashed = String::with_capacity(name.len() + 2);
    while let Some(dash) = rest.find('-') {
        let (before, after) = rest.split_at(dash + 1);
        dashed.push_str(before);
        let date = after.get(..8).filter(|digits| {
            digits.starts_with("20") && matches!(after.as_bytes().get(8), None | Some(b'-' | b':'))
        });
        rest = match date.and_then(|digits| NaiveDate::parse_from_str(digits, "%Y%m%d").ok()) {
            Some(date) => {
                dashed.push_str(&date.to_string());
                &after[8..]
            }
            None => after,
        };
    }
    dashed + rest
}

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

/// A condition on a name, e.g. `{"starts_with": "gpt-5"}`. All but `regex` ignore case.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clause {
    Equals(Box<str>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
    #[serde(deserialize_with = "pattern")]
    Regex(Regex),
    Not(Box<Clause>),
    Or(Vec<Clause>),
    And(Vec<Clause>),
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(deserializer)?;
    Regex::new(&text).map_err(serde::de::Error::custom)
}

impl Clause {
    /// Whether the condition is true for `name`.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        let same = |text: &str| text.to_lowercase();
        match self {
            Self::Equals(text) => lower == same(text),
            Self::StartsWith(text) => lower.starts_with(&same(text)),
            Self::EndsWith(text) => lower.ends_with(&same(text)),
            Self::Contains(text) => lower.contains(&same(text)),
            Self::Regex(pattern) => pattern.is_match(name),
            Self::Not(clause) => !clause.is_match(name),
            Self::Or(clauses) => clauses.iter().any(|clause| clause.is_match(name)),
            Self::And(clauses) => clauses.iter().all(|clause| clause.is_match(name)),
        }
    }

    /// Collects the literal names in the condition.
    pub(crate) fn names<'c>(&'c self, found: &mut Vec<&'c str>) {
        match self {
            Self::Equals(name) => found.push(name),
            Self::Or(clauses) => clauses.iter().for_each(|clause| clause.names(found)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_price_list_parses() {
        let table = table();
        let models: usize = table.providers.iter().map(|provider| provider.models().models.len()).sum();
        assert!(models > 1_000, "only {models} models");
        for provider in &table.providers {
            for name in &provider.models().fallback {
                assert!(table.providers.iter().any(|other| other.id == *name), "{name} is not in the list");
            }
        }
        assert!(
            ["input_tokens", "output_tokens", "cache_read_tokens"].iter().all(|unit| table.units.has(unit))
        );
    }

    #[test]
    fn source_has_package_and_licence() {
        let source = &table().source;
        assert_eq!((&*source.package, &*source.licence), ("genai-prices", "MIT"));
        assert!(source.copyright.contains("Pydantic"));
    }

    #[test]
    fn dates_in_model_names_get_dashes() {
        assert_eq!(with_dashed_dates("gpt-5.2-20251211"), "gpt-5.2-2025-12-11");
        assert_eq!(with_dashed_dates("gpt-5.2-20251211:batch"), "gpt-5.2-2025-12-11:batch");
        assert_eq!(with_dashed_dates("gpt-5.2-20251311"), "gpt-5.2-20251311");
        assert_eq!(with_dashed_dates("a-202512111"), "a-202512111");
    }

    fn holds(clause: &str, name: &str) -> bool {
        serde_json::from_str::<Clause>(clause).unwrap().is_match(name)
    }

    #[test]
    fn clauses_match_names() {
        assert!(holds(r#"{"equals": "GPT-5"}"#, "gpt-5"));
        assert!(!holds(r#"{"equals": "gpt-5"}"#, "gpt-5-mini"));
        assert!(holds(r#"{"starts_with": "gpt"}"#, "GPT-5"));
        assert!(holds(r#"{"ends_with": "mini"}"#, "gpt-5-mini"));
        assert!(holds(r#"{"contains": "5"}"#, "gpt-5-mini"));
        assert!(holds(r#"{"regex": "^claude-\\d{8}$"}"#, "claude-20260101"));
        assert!(!holds(r#"{"regex": "^claude-\\d{8}$"}"#, "claude-2026"));
        assert!(!holds(r#"{"and": [{"contains": "a"}, {"not": {"contains": "b"}}]}"#, "ab"));
        assert!(holds(r#"{"or": [{"equals": "a"}, {"equals": "b"}]}"#, "b"));
    }
}
