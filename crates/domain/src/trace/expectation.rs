//! What is expected of a run: the `[expect]` of a `*.case.toml`.

use regex::Regex;
use rust_decimal::Decimal;
use serde::Deserialize;

use super::compare::Way;

/// Expectations.
///
/// ```toml
/// calls = ["search", "create_note"]     # each is called, whatever the order
/// never_calls = ["delete_note"]
/// order = ["search", "create_note"]     # each after the one before; others may be between
/// max_iterations = 6
/// max_cost = "0.02"
/// answer = { contains = ["Lisbon"], regex = "(?i)booked" }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectations {
    /// Tools that are called.
    pub calls: Vec<String>,
    /// Tools that are not called.
    pub never_calls: Vec<String>,
    /// Tools that are called in this order.
    pub order: Vec<String>,
    /// The answer.
    pub answer: ExpectedAnswer,
    /// The most model calls.
    pub max_iterations: Option<u32>,
    /// The most US dollars. An unknown cost does not meet it.
    pub max_cost: Option<Decimal>,
}

/// What is expected of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedAnswer {
    /// Texts that it contains.
    pub contains: Vec<String>,
    /// A regular expression that matches a part of it.
    pub regex: Option<String>,
}

impl Expectations {
    /// What of this the way does not meet, as sentences; empty: all is met.
    #[must_use]
    pub fn unmet(&self, way: &Way) -> Vec<String> {
        let mut unmet = Vec::new();
        let called = |name: &String| way.calls.iter().any(|call| call.name == *name);
        let missing = self.calls.iter().filter(|name| !called(name));
        unmet.extend(missing.map(|name| format!("calls: `{name}` was not called")));
        let forbidden = self.never_calls.iter().filter(|name| called(name));
        unmet.extend(forbidden.map(|name| format!("never_calls: `{name}` was called")));
        let mut names = way.calls.iter().map(|call| call.name.as_str());
        if let Some(name) = self.order.iter().find(|name| !names.any(|called| called == name.as_str())) {
            unmet.push(format!("order: `{name}` was not called after the tools before it"));
        }
        let absent = self.answer.contains.iter().filter(|text| !way.answer.contains(text.as_str()));
        unmet.extend(absent.map(|text| format!("answer.contains: `{text}` is not in the answer")));
        match self.answer.regex.as_deref().map(Regex::new) {
            Some(Err(error)) => unmet.push(format!("answer.regex: {error}")),
            Some(Ok(regex)) if !regex.is_match(&way.answer) => {
                unmet.push(format!("answer.regex: `{regex}` does not match the answer"));
            }
            _ => {}
        }
        if let Some(most) = self.max_iterations.filter(|most| way.iterations > *most) {
            unmet
                .push(format!("max_iterations: {} model calls, at most {most} are expected", way.iterations));
        }
        match (self.max_cost, way.cost) {
            (Some(_), None) => unmet.push("max_cost: the cost is unknown".to_owned()),
            (Some(most), Some(cost)) if cost > most => {
                unmet.push(format!("max_cost: ${cost}, at most ${most} is expected"));
            }
            _ => {}
        }
        unmet
    }
}
