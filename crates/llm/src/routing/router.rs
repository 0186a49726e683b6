//! Selects the models suitable for a request and the order in which they are asked. Pure functions: the same
//! arguments give the same order.
//!
//! What the tables do not say about a model counts the same wherever it matters: see [`Capabilities::meets`]. A model of which it is
//! unknown whether it has what is needed is asked only if no other can be: it was configured deliberately.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::model::Usage;
pub use houston_domain::model_policy::{Need, Strategy};
use rust_decimal::Decimal;

use crate::capabilities::Capabilities;
use crate::context_budget;
use crate::model::{Description, Request};
use crate::price::Price;
use crate::provider::Provider;
use crate::tokens;

/// Quality of a model without a rank: the middle of the scale.
pub const UNRANKED: u8 = 50;

impl Capabilities {
    /// Whether the model can do this.
    ///
    /// | feature | if no table says |
    /// |---|---|
    /// | tools | it can: nearly all models have them, and an agent is of little use without |
    /// | images | it cannot: a model that does not see refuses the whole request |
    /// | JSON schema | it can: the schema is described in the prompt as well |
    pub fn meets(&self, need: Need) -> bool {
        self.says(need).unwrap_or(need != Need::Vision)
    }

    /// What a table says about that.
    fn says(&self, need: Need) -> Option<bool> {
        match need {
            Need::Tools => self.tools,
            Need::Vision => self.vision,
            Need::JsonSchema => self.json_schema,
        }
    }
}

/// US dollars per million tokens of an ordinary request: precise enough to compare models. Actual costs are computed
/// by [`Price`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Input tokens.
    pub input: Decimal,
    /// Output tokens.
    pub output: Decimal,
}

/// A model that may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Provider and model name.
    pub description: Description,
    /// Its limits and features.
    pub capabilities: Capabilities,
    /// Its price; `None` if unknown, which does not mean free.
    pub rates: Option<Rates>,
    /// Its quality, from 1 to 100.
    pub quality: u8,
}

impl Candidate {
    /// Looks up a model in the vendored tables. Its quality is the entry of `ranks` with the longest matching name
    /// prefix. Prices are those in force at `now`.
    pub fn from_tables(description: Description, ranks: &BTreeMap<String, u8>, now: DateTime<Utc>) -> Self {
        let Description { provider, model, .. } = &description;
        // Models on the user's own machine cost nothing per token.
        let self_hosted = Provider::named(provider).is_ok_and(|row| !row.needs_key);
        let self_hosted = self_hosted.then_some(Rates { input: Decimal::ZERO, output: Decimal::ZERO });
        let listed = description.profile().capabilities;
        let vision = if description.simulated { Some(true) } else { listed.vision };
        Self {
            capabilities: Capabilities { tools: Some(description.supports_tools), vision, ..listed },
            rates: Price::find(provider, model).and_then(|price| Rates::of(&price, now)).or(self_hosted),
            quality: rank(model, ranks),
            description,
        }
    }
}

impl Rates {
    fn of(price: &Price, now: DateTime<Utc>) -> Option<Self> {
        /// Few enough tokens to stay below the price tiers for long requests.
        const ORDINARY: u64 = 1_000;
        let millions = |cost: Decimal| cost * Decimal::from(1_000_000 / ORDINARY);
        let input = Usage { input_tokens: ORDINARY, ..Usage::default() };
        let output = Usage { output_tokens: ORDINARY, ..Usage::default() };
        Some(Self { input: millions(price.cost(&input, now)?), output: millions(price.cost(&output, now)?) })
    }
}

/// The rank with the longest prefix of the model's name, without the publisher (`anthropic/…`).
fn rank(model: &str, ranks: &BTreeMap<String, u8>) -> u8 {
    let name = model.rsplit('/').next().unwrap_or(model);
    let found = ranks.iter().filter(|(beginning, _)| name.starts_with(beginning.as_str()));
    found.max_by_key(|(beginning, _)| beginning.len()).map_or(UNRANKED, |(_, rank)| *rank)
}

/// What one request needs from its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs<'a> {
    /// Features that its use case always needs.
    pub always: &'a [Need],
    /// Whether the request offers tools.
    pub tools: bool,
    /// Whether the answer must match a JSON schema. Models without schema support are asked last: they get the schema
    /// described in the prompt.
    pub schema: bool,
    /// Estimated length of the request, in tokens.
    pub input_tokens: u64,
    /// Longest answer allowed, in tokens.
    pub output_tokens: u64,
}

impl<'a> Needs<'a> {
    /// Collects what `request` needs. If the request has no token count, it is estimated for `provider`.
    pub fn of(request: &Request<'_>, always: &'a [Need], provider: &str) -> Self {
        Self {
            always,
            tools: !request.tools.is_empty(),
            schema: request.answer_schema.is_some(),
            input_tokens: request.input_tokens.unwrap_or_else(|| tokens::of_request(request, provider)),
            output_tokens: u64::from(request.max_output_tokens),
        }
    }
}

/// Why a model is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// It does not support this feature.
    MissingFeature(Need),
    /// The conversation does not fit into its context window.
    Context {
        /// Estimated length of the conversation, in tokens.
        tokens: u64,
        /// Size of the context window, in tokens.
        window: u64,
    },
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingFeature(need) => write!(f, "skipped: does not support {}", need.as_str()),
            Self::Context { tokens, window } => {
                write!(
                    f,
                    "skipped: the conversation has about {tokens} tokens, the context window is {window}"
                )
            }
        }
    }
}

/// The result of [`order`], as indices of the candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// Models to ask, in this order.
    pub asked: Vec<usize>,
    /// Models that are not asked, with the reason.
    pub skipped: Vec<(usize, SkipReason)>,
}

/// Orders `candidates` for a request. `latency` returns the expected duration of an answer, if it was measured. A
/// model is skipped if it lacks a needed feature, or if the estimated request does not fit into its context window
/// with the reserve. If no model is known to have the features, those are considered that are not known to lack them. If that
/// skips all models, those are asked whose window may still be large enough given the error of the estimate.
pub fn order(
    strategy: Strategy,
    needs: &Needs<'_>,
    candidates: &[Candidate],
    latency: &dyn Fn(&Description) -> Option<Duration>,
) -> Order {
    let mut order = Order::default();
    let mut tight = Vec::new();
    let is_any_able = candidates
        .iter()
        .any(|candidate| missing(&candidate.capabilities, needs, |need, able| !able.meets(need)).is_none());
    let is_missing = |need: Need, able: &Capabilities| {
        if is_any_able { !able.meets(need) } else { able.says(need) == Some(false) }
    };
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(need) = missing(&candidate.capabilities, needs, is_missing) {
            order.skipped.push((index, SkipReason::MissingFeature(need)));
            continue;
        }
        let (tokens, answer) = (needs.input_tokens, needs.output_tokens);
        match candidate.capabilities.context_window {
            Some(window) if context_budget::left(tokens, answer, window) < 0 => {
                tight.push((index, SkipReason::Context { tokens, window }));
            }
            _ => order.asked.push(index),
        }
    }
    if order.asked.is_empty() {
        let beyond_doubt = |reason: &SkipReason| match *reason {
            SkipReason::Context { tokens, window } => context_budget::is_clearly_over(tokens, window),
            SkipReason::MissingFeature(_) => true,
        };
        order.asked.extend(tight.extract_if(.., |(_, reason)| !beyond_doubt(reason)).map(|(index, _)| index));
    }
    order.skipped.extend(tight);
    order.skipped.sort_by_key(|(index, _)| *index);
    sort(strategy, needs, candidates, latency, &mut order.asked);
    if needs.schema {
        order.asked.sort_by_key(|index| !candidates[*index].capabilities.meets(Need::JsonSchema));
    }
    order
}

/// The first needed feature that is missing.
fn missing(
    able: &Capabilities,
    needs: &Needs<'_>,
    is_missing: impl Fn(Need, &Capabilities) -> bool,
) -> Option<Need> {
    let tools = needs.tools.then_some(Need::Tools);
    tools.into_iter().chain(needs.always.iter().copied()).find(|need| is_missing(*need, able))
}

/// Sorts by the strategy; equal candidates keep their order.
fn sort(
    strategy: Strategy,
    needs: &Needs<'_>,
    candidates: &[Candidate],
    latency: &dyn Fn(&Description) -> Option<Duration>,
    indices: &mut [usize],
) {
    let cost = |index: usize| cost(needs.input_tokens, needs.output_tokens, &candidates[index]);
    let cheaper = |a: usize, b: usize| match (cost(a), cost(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let quality = |index: usize| candidates[index].quality;
    match strategy {
        Strategy::Fallback => {}
        Strategy::Cheapest => indices.sort_by(|a, b| cheaper(*a, *b)),
        Strategy::Smartest => {
            indices.sort_by(|a, b| quality(*b).cmp(&quality(*a)).then_with(|| cheaper(*a, *b)));
        }
        Strategy::Fastest => {
            // The latency of each is read once: other calls change it meanwhile.
            indices.sort_by_cached_key(|index| latency(&candidates[*index].description));
        }
        Strategy::Balanced => {
            let dearest = indices.iter().filter_map(|index| cost(*index)).max().unwrap_or_default();
            let score = |index: usize| {
                // A model without a price counts as the most expensive one.
                let share = cost(index).unwrap_or(dearest).checked_div(dearest).unwrap_or_default();
                Decimal::from(quality(index)) / Decimal::ONE_HUNDRED - share
            };
            indices.sort_by(|a, b| score(*b).partial_cmp(&score(*a)).unwrap_or(Ordering::Equal));
        }
    }
}

fn cost(input_tokens: u64, output_tokens: u64, candidate: &Candidate) -> Option<Decimal> {
    let Rates { input, output } = candidate.rates?;
    let million = Decimal::from(1_000_000);
    Some((Decimal::from(input_tokens) * input + Decimal::from(output_tokens) * output) / million)
}

#[cfg(test)]
mod tests;
