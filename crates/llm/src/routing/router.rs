//! Which of several models is asked, and in which order the others come after it: pure, the same for the same
//! arguments.
//!
//! What a model lacks counts only when it is known to be lacking: a model nobody knows anything of may be asked for
//! everything, as whoever listed it wanted it asked.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::model::Usage;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::context_budget;
use crate::limits::Capabilities;
use crate::model::{Description, Request};
use crate::price::Price;
use crate::provider::Provider;
use crate::tokens;

/// The quality of a model nobody ranked: the middle.
pub const UNRANKED: u8 = 50;

/// In which order models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// What the request costs, cheapest first; unknown prices last.
    Cheapest,
    /// How long an answer takes, measured here and lately, quickest first; what was not measured comes before, so that
    /// it is.
    Fastest,
    /// By quality, best first; among equals the cheaper.
    Smartest,
    /// By quality and cost, which count the same: the dearest costs as much as the whole scale of quality is worth.
    Balanced,
    /// As listed.
    #[default]
    Fallback,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Cheapest, Self::Fastest, Self::Smartest, Self::Balanced, Self::Fallback];

    /// The name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cheapest => "cheapest",
            Self::Fastest => "fastest",
            Self::Smartest => "smartest",
            Self::Balanced => "balanced",
            Self::Fallback => "fallback",
        }
    }
}

/// Something a use case needs of its model, whatever is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Calling tools.
    Tools,
    /// Seeing images.
    Vision,
    /// Answers bound to a JSON schema by the provider.
    JsonSchema,
}

impl Need {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Vision, Self::JsonSchema];

    /// The name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Vision => "vision",
            Self::JsonSchema => "json_schema",
        }
    }
}

/// US dollars for a million tokens of an ordinary request: enough to compare models by. What a call did cost is
/// [`Price`]'s to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Sent.
    pub input: Decimal,
    /// Received.
    pub output: Decimal,
}

/// A model that may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Who it is.
    pub description: Description,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it costs; `None`: nobody knows, which is not nothing.
    pub rates: Option<Rates>,
    /// How good it is, from 1 to 100.
    pub quality: u8,
}

impl Candidate {
    /// What is known of a model: what its description and the vendored tables say, and of `ranks` that of the longest
    /// beginning of its name. Prices are those at `now`.
    #[must_use]
    pub fn known(description: Description, ranks: &BTreeMap<String, u8>, now: DateTime<Utc>) -> Self {
        let Description { provider, model, .. } = &description;
        // What runs on the user's own machine costs nothing a token.
        let own = Provider::named(provider).is_ok_and(|row| !row.needs_key);
        let own = own.then_some(Rates { input: Decimal::ZERO, output: Decimal::ZERO });
        let listed = Capabilities::find(provider, model).unwrap_or_default();
        Self {
            capabilities: Capabilities { tools: Some(description.supports_tools), ..listed },
            rates: Price::find(provider, model).and_then(|price| Rates::of(&price, now)).or(own),
            quality: rank(model, ranks),
            description,
        }
    }
}

impl Rates {
    fn of(price: &Price, now: DateTime<Utc>) -> Option<Self> {
        /// Below the tiers of long requests.
        const ORDINARY: u64 = 1_000;
        let millions = |cost: Decimal| cost * Decimal::from(1_000_000 / ORDINARY);
        let input = Usage { input_tokens: ORDINARY, ..Usage::default() };
        let output = Usage { output_tokens: ORDINARY, ..Usage::default() };
        Some(Self { input: millions(price.cost(&input, now)?), output: millions(price.cost(&output, now)?) })
    }
}

/// The rank of the longest beginning of the model's name, its maker's prefix (`anthropic/…`) left out.
fn rank(model: &str, ranks: &BTreeMap<String, u8>) -> u8 {
    let name = model.rsplit('/').next().unwrap_or(model);
    let found = ranks.iter().filter(|(beginning, _)| name.starts_with(beginning.as_str()));
    found.max_by_key(|(beginning, _)| beginning.len()).map_or(UNRANKED, |(_, rank)| *rank)
}

/// What one request needs of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs<'a> {
    /// What its use case always needs.
    pub always: &'a [Need],
    /// Whether it offers tools.
    pub tools: bool,
    /// Whether its answer is bound to a schema. One that cannot do it is asked last: it is told the schema in words.
    pub schema: bool,
    /// Tokens it has, about.
    pub input_tokens: u64,
    /// Tokens its answer may have.
    pub output_tokens: u64,
}

impl<'a> Needs<'a> {
    /// What `request` needs; its tokens are estimated if it does not say them, for `provider`.
    #[must_use]
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

/// Why a model is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It cannot do this.
    Ability(Need),
    /// The conversation is longer than it can read.
    Context {
        /// Tokens of the conversation, about.
        tokens: u64,
        /// Tokens the model can read and write.
        window: u64,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ability(need) => write!(f, "not asked: it lacks {}", need.as_str()),
            Self::Context { tokens, window } => {
                write!(f, "not asked: the conversation has about {tokens} tokens, and it reads {window}")
            }
        }
    }
}

/// Who is asked, first to last, and who is not, by their place among the candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// To be asked in this order.
    pub asked: Vec<usize>,
    /// Not to be asked.
    pub passed_over: Vec<(usize, Lack)>,
}

/// Orders `candidates` for a request that needs `needs`. `pace` says how long a model takes for an answer, if that was
/// measured. A model is passed over when it lacks something, or its context is too small by the estimate with its
/// reserve; should that leave nobody, only those stay out whose context is too small beyond doubt.
pub fn order(
    strategy: Strategy,
    needs: &Needs<'_>,
    candidates: &[Candidate],
    pace: &dyn Fn(&Description) -> Option<Duration>,
) -> Order {
    let mut order = Order::default();
    let mut tight = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        if let Some(need) = lacking(&candidate.capabilities, needs) {
            order.passed_over.push((place, Lack::Ability(need)));
            continue;
        }
        let (tokens, answer) = (needs.input_tokens, needs.output_tokens);
        match candidate.capabilities.context_window {
            Some(window) if context_budget::left(tokens, answer, window) < 0 => {
                tight.push((place, Lack::Context { tokens, window }));
            }
            _ => order.asked.push(place),
        }
    }
    if order.asked.is_empty() {
        let beyond_doubt = |lack: &Lack| match *lack {
            Lack::Context { tokens, window } => context_budget::is_clearly_over(tokens, window),
            Lack::Ability(_) => true,
        };
        order.asked.extend(tight.extract_if(.., |(_, lack)| !beyond_doubt(lack)).map(|(place, _)| place));
    }
    order.passed_over.extend(tight);
    order.passed_over.sort_by_key(|(place, _)| *place);
    sort(strategy, needs, candidates, pace, &mut order.asked);
    if needs.schema {
        order.asked.sort_by_key(|place| candidates[*place].capabilities.json_schema == Some(false));
    }
    order
}

fn lacking(able: &Capabilities, needs: &Needs<'_>) -> Option<Need> {
    let tools = needs.tools.then_some(Need::Tools);
    tools.into_iter().chain(needs.always.iter().copied()).find(|need| {
        let able = match need {
            Need::Tools => able.tools,
            Need::Vision => able.vision,
            Need::JsonSchema => able.json_schema,
        };
        able == Some(false)
    })
}

/// Sorts by the strategy; equals stay as they were listed.
fn sort(
    strategy: Strategy,
    needs: &Needs<'_>,
    candidates: &[Candidate],
    pace: &dyn Fn(&Description) -> Option<Duration>,
    places: &mut [usize],
) {
    let cost = |place: usize| cost(needs.input_tokens, needs.output_tokens, &candidates[place]);
    let cheaper = |a: usize, b: usize| match (cost(a), cost(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let quality = |place: usize| candidates[place].quality;
    match strategy {
        Strategy::Fallback => {}
        Strategy::Cheapest => places.sort_by(|a, b| cheaper(*a, *b)),
        Strategy::Smartest => {
            places.sort_by(|a, b| quality(*b).cmp(&quality(*a)).then_with(|| cheaper(*a, *b)));
        }
        Strategy::Fastest => {
            // Each is asked once: it is measured by others meanwhile.
            places.sort_by_cached_key(|place| pace(&candidates[*place].description));
        }
        Strategy::Balanced => {
            let dearest = places.iter().filter_map(|place| cost(*place)).max().unwrap_or_default();
            let score = |place: usize| {
                // What is unknown counts as the dearest known.
                let share = cost(place).unwrap_or(dearest).checked_div(dearest).unwrap_or_default();
                Decimal::from(quality(place)) / Decimal::ONE_HUNDRED - share
            };
            places.sort_by(|a, b| score(*b).partial_cmp(&score(*a)).unwrap_or(Ordering::Equal));
        }
    }
}

/// What `request` would cost, in US dollars, if its answer were as long as it may be; `None` when the price is unknown.
#[must_use]
pub fn estimate_cost(request: &Request<'_>, candidate: &Candidate) -> Option<Decimal> {
    let needs = Needs::of(request, &[], &candidate.description.provider);
    let longest = candidate.capabilities.max_output_tokens.unwrap_or(u64::MAX);
    cost(needs.input_tokens, needs.output_tokens.min(longest), candidate)
}

fn cost(input_tokens: u64, output_tokens: u64, candidate: &Candidate) -> Option<Decimal> {
    let Rates { input, output } = candidate.rates?;
    let million = Decimal::from(1_000_000);
    Some((Decimal::from(input_tokens) * input + Decimal::from(output_tokens) * output) / million)
}

#[cfg(test)]
mod tests;
