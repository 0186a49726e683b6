//! How much several replays of one trace differ from the record, and from each other.

use std::collections::{BTreeMap, BTreeSet};

use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::json;

use super::compare::Comparison;

/// The least, the mean and the most of several replays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub most: u64,
}

/// A summary of several replays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stability {
    /// How many replays there were.
    pub replays: usize,
    /// How many made the recorded calls, in the recorded order.
    pub same_calls: usize,
    /// How many gave the recorded answer.
    pub same_answer: usize,
    /// How many different lists of calls there were.
    pub ways: usize,
    /// How many different answers there were.
    pub answers: usize,
    /// Calls that must be changed, added or removed to make the recorded ones.
    pub distance: Range,
    /// Model calls.
    pub iterations: Range,
    /// Tokens sent.
    pub input_tokens: Range,
    /// Tokens received.
    pub output_tokens: Range,
    /// Cost of all replays in US dollars; `None` if that of one is unknown.
    pub cost: Option<Decimal>,
    /// How often the replays ended in which way.
    pub statuses: BTreeMap<String, usize>,
}

impl Stability {
    /// The summary of these replays; `None` without any.
    pub fn of(replays: &[Comparison]) -> Option<Self> {
        let ways = || replays.iter().map(|comparison| &comparison.replayed);
        let calls: BTreeSet<String> = ways().map(|way| json!(way.calls).to_string()).collect();
        let answers: BTreeSet<&str> = ways().map(|way| way.answer.as_str()).collect();
        let cost = ways().try_fold(Decimal::ZERO, |sum, way| Some(sum.saturating_add(way.cost?)));
        let mut statuses = BTreeMap::new();
        for way in ways() {
            let name = way.status.map_or("open", |status| status.as_str());
            *statuses.entry(name.to_owned()).or_default() += 1;
        }
        Some(Self {
            replays: replays.len(),
            same_calls: replays.iter().filter(|comparison| comparison.distance == 0).count(),
            same_answer: replays.iter().filter(|comparison| comparison.same_answer).count(),
            ways: calls.len(),
            answers: answers.len(),
            distance: range(replays.iter().map(|comparison| comparison.distance as u64))?,
            iterations: range(ways().map(|way| way.iterations.into()))?,
            input_tokens: range(ways().map(|way| way.input_tokens))?,
            output_tokens: range(ways().map(|way| way.output_tokens))?,
            cost,
            statuses,
        })
    }
}

fn range(values: impl Iterator<Item = u64> + Clone) -> Option<Range> {
    let (least, most) = (values.clone().min()?, values.clone().max()?);
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value as f64, count + 1.0));
    Some(Range { least, mean: sum / count, most })
}
