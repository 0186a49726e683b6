//! The same calls, priced here and by genai-prices' own Python package. `cargo xtask prices-test` writes the calls
//! down, with what the package says of each, and runs this.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use super::{Price, Terms, extract};

/// Where the calls are.
const FILE: &str = "HOUSTON_PRICE_CASES";
/// Fewer calls, or fewer providers, would show too little.
const FEWEST: usize = 300;
const FEWEST_PROVIDERS: usize = 10;

#[derive(Deserialize)]
struct Case {
    /// `made up`, `dataset`, or the name of a recording.
    source: String,
    provider: String,
    flavour: String,
    body: Value,
    model: String,
    at: DateTime<Utc>,
    terms: Terms,
    /// What the package says; `None` when it refuses.
    cost: Option<String>,
}

impl Case {
    /// What we say.
    fn cost(&self) -> Option<Decimal> {
        let used = extract(&self.provider, &self.flavour, &self.body).ok()?;
        Price::find(&self.provider, &self.model)?.cost_of(&used.counts, self.at, &self.terms).ok()
    }
}

/// Durations are paid by the hour, and a 3,600th has no last digit: both sides round it, each in its own place. All
/// else is exact.
fn is_same(ours: Decimal, theirs: Decimal) -> bool {
    ours == theirs || (ours.scale() >= 24 && ours.round_dp(22) == theirs.round_dp(22))
}

#[test]
#[ignore = "`cargo xtask prices-test` installs the package and runs this"]
fn costs_are_those_of_the_package() {
    let file =
        std::env::var_os(FILE).expect("HOUSTON_PRICE_CASES names the file of `cargo xtask prices-test`");
    let text = fs::read_to_string(file).unwrap();
    let (mut priced, mut refused, mut rounded, mut wrong) = (BTreeMap::new(), 0, 0, Vec::new());
    let (mut bodies, mut flavours, mut providers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let ours = case.cost();
        let theirs = case.cost.as_deref().map(|cost| Decimal::from_str(cost).unwrap());
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if is_same(ours, theirs) => {
                let source = if case.source.contains('/') { "recorded".to_owned() } else { case.source };
                *priced.entry(source).or_insert(0) += 1;
                rounded += usize::from(ours != theirs);
                bodies.insert(case.body.to_string());
                providers.insert(case.provider.clone());
                flavours.insert((case.provider, case.flavour));
            }
            (None, None) => refused += 1,
            _ => wrong.push(format!("{line}\n  ours {ours:?}")),
        }
    }
    let count: usize = priced.values().sum();
    println!(
        "{count} costs equal ({rounded} of them up to rounding): {priced:?}; {} bodies, {} providers, {} flavours; \
         {refused} refused by both; {} differ",
        bodies.len(),
        providers.len(),
        flavours.len(),
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "{} differ, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    assert!(bodies.len() >= FEWEST && providers.len() >= FEWEST_PROVIDERS, "too few to show anything");
}
