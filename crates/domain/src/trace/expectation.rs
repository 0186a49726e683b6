//! What is expected of a run: the `[expect]` of a `*.case.toml`.

use regex::Regex;
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use super::compare::Way;
use crate::question::schema::{self, Mismatch};

/// Expectations.
///
/// ```toml
/// calls = ["search", "create_note"]     # each is called, whatever the order
/// never_calls = ["delete_note"]
/// order = ["search", "create_note"]     # each after the one before; others may be between
/// max_iterations = 6
/// max_cost = "0.02"
/// judge = "It names one hotel and its price."
///
/// [answer]
/// contains = ["Lisbon"]
/// regex = "(?i)booked"
/// schema = { type = "object", required = ["hotel"] }   # the answer is JSON, alone or in a code block
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
    /// What a model must find true of the answer. The caller asks it: [`Self::unmet`] ignores this.
    pub judge: Option<String>,
}

/// What is expected of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedAnswer {
    /// Texts that it contains.
    pub contains: Vec<String>,
    /// A regular expression that matches a part of it.
    pub regex: Option<String>,
    /// The schema of the JSON that it is, as far as [`schema`] knows schemas.
    pub schema: Option<Value>,
}

/// The JSON in an answer: all of it, or its first code block.
fn json_of(answer: &str) -> Result<Value, serde_json::Error> {
    let block = answer.split_once("```").and_then(|(_, rest)| rest.split_once("```"));
    let inner = block.map(|(block, _)| block.strip_prefix("json").unwrap_or(block));
    serde_json::from_str(answer.trim()).or_else(|error| match inner {
        Some(inner) => serde_json::from_str(inner.trim()),
        None => Err(error),
    })
}

impl ExpectedAnswer {
    fn unmet(&self, answer: &str) -> Vec<String> {
        let absent = self.contains.iter().filter(|text| !answer.contains(text.as_str()));
        let mut unmet: Vec<String> =
            absent.map(|text| format!("answer.contains: `{text}` is not in the answer")).collect();
        match self.regex.as_deref().map(Regex::new) {
            Some(Err(error)) => unmet.push(format!("answer.regex: {error}")),
            Some(Ok(regex)) if !regex.is_match(answer) => {
                unmet.push(format!("answer.regex: `{regex}` does not match the answer"));
            }
            _ => {}
        }
        match self.schema.as_ref().map(|of| (of, json_of(answer))) {
            Some((_, Err(error))) => unmet.push(format!("answer.schema: the answer is not JSON: {error}")),
            Some((of, Ok(value))) => {
                if let Err(Mismatch { pointer, reason }) = schema::check(of, &value) {
                    let pointer = if pointer.is_empty() { "/" } else { &pointer };
                    unmet.push(format!("answer.schema: {pointer}: {reason}"));
                }
            }
            None => {}
        }
        unmet
    }
}

impl Expectations {
    /// What of this the way does not meet, as sentences; empty: all is met.
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
        unmet.extend(self.answer.unmet(&way.answer));
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
