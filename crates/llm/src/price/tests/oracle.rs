//! Compares costs computed here with those of genai-prices' Python package. `cargo xtask prices-test` writes calls
//! with the package's costs to a file and runs this.
//!
//! Each call is priced twice: as in production, from the provider's answer through the wire's decoder and `Usage`
//! (where Houston supports the protocol and `Usage` has all billed units); and from the counts read by the package's
//! description of the API, which covers all units and terms of the price list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::extract;
use crate::model::Event;
use crate::price::{Price, Terms};
use crate::profile::AnswerEnd;
use crate::protocol::Wire;

/// Variable with the path of the file.
const FILE: &str = "HOUSTON_PRICE_CASES";
/// Minimum numbers of calls and providers for a meaningful comparison.
const FEWEST: usize = 300;
const FEWEST_PROVIDERS: usize = 10;
/// Minimum per wire: Cohere has nine models.
const FEWEST_DECODED: usize = 5;

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
    /// Cost by the package in US dollars; `None` when it refuses.
    cost: Option<String>,
}

impl Case {
    /// Cost of the counts read by the package's description of the API.
    fn cost(&self) -> Option<Decimal> {
        let used = extract(&self.provider, &self.flavour, &self.body).ok()?;
        Price::find(&self.provider, &self.model)?.cost_of(&used.counts, self.at, &self.terms).ok()
    }
}

/// Units that a [`Usage`](houston_domain::model::Usage) contains.
const COUNTED: [&str; 16] = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "output_reasoning_tokens",
    "input_text_tokens",
    "output_text_tokens",
    "cache_text_read_tokens",
    "input_audio_tokens",
    "cache_audio_read_tokens",
    "output_audio_tokens",
    "input_image_tokens",
    "cache_image_read_tokens",
    "web_searches",
];

impl Case {
    /// The wire of this provider's API. `None` where Houston has none, and for invented answers that are inconsistent
    /// (xAI reports reasoning outside of the output, recognisable by a total that the invented answers lack).
    fn wire(&self) -> Option<Wire> {
        let is_made_up = self.source == "made up";
        Some(match (self.provider.as_str(), self.flavour.as_str()) {
            ("x-ai" | "perplexity", _) if is_made_up => return None,
            ("anthropic", "default") => Wire::Anthropic,
            ("cohere", "default") => Wire::Cohere,
            ("google", "default") => Wire::Gemini,
            ("openai" | "azure", "responses") => Wire::OpenAiResponses,
            ("groq" | "mistral", "default") => Wire::OpenAiChat,
            ("anthropic" | "google", _) => return None,
            (_, "chat") => Wire::OpenAiChat,
            _ => return None,
        })
    }

    /// Cost as in production: decodes the answer and prices its usage. `None` where that is not possible.
    fn cost_of_decoded(&self) -> Option<Decimal> {
        let wire = self.wire().filter(|_| self.terms == Terms::new())?;
        let used = extract(&self.provider, &self.flavour, &self.body).ok()?;
        let mut counted = used.counts.iter().filter(|(_, count)| !count.is_zero());
        if counted.any(|(unit, _)| !COUNTED.contains(&&**unit)) {
            return None;
        }
        let mut events = VecDeque::new();
        wire.decoder("x", AnswerEnd::DoneMark).whole_answer(&whole(wire, &self.body), &mut events).unwrap();
        let Some(Event::Done(turn)) = events.pop_back() else { panic!("no answer: {}", self.body) };
        Price::find(&self.provider, &self.model)?.cost(&turn.usage, self.at)
    }
}

/// Wraps a usage report into a complete answer.
fn whole(wire: Wire, body: &Value) -> String {
    let mut body = body.clone();
    let answer = match wire {
        Wire::Anthropic => json!({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}),
        Wire::OpenAiResponses => json!({
            "status": "completed", "error": null,
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]}),
        Wire::Gemini => {
            json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]})
        }
        Wire::Cohere => {
            json!({"message": {"content": [{"type": "text", "text": "x"}]}, "finish_reason": "COMPLETE"})
        }
        Wire::OpenAiChat | Wire::Ollama => {
            json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]})
        }
    };
    if let (Some(fields), Value::Object(answer)) = (body.as_object_mut(), answer) {
        // Failed answers report usage, too, which is compared as well.
        fields.remove("error");
        fields.extend(answer);
    }
    body.to_string()
}

/// Durations are billed by the hour, and 1/3600 has no exact decimal: both sides round it, at different places.
/// Everything else is exact.
fn is_same(ours: Decimal, theirs: Decimal) -> bool {
    ours == theirs || (ours.scale() >= 24 && ours.round_dp(22) == theirs.round_dp(22))
}

#[test]
#[ignore = "`cargo xtask prices-test` installs the package and runs this"]
fn costs_equal_those_of_the_python_package() {
    let file =
        std::env::var_os(FILE).expect("HOUSTON_PRICE_CASES names the file of `cargo xtask prices-test`");
    let text = fs::read_to_string(file).unwrap();
    let (mut priced, mut refused, mut rounded, mut wrong) = (BTreeMap::new(), 0, 0, Vec::new());
    let mut decoded = BTreeMap::new();
    let (mut bodies, mut flavours, mut providers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let ours = case.cost();
        let theirs = case.cost.as_deref().map(|cost| Decimal::from_str(cost).unwrap());
        match (case.cost_of_decoded(), theirs) {
            (Some(ours), Some(theirs)) if !is_same(ours, theirs) => {
                wrong.push(format!("{line}\n  decoded, ours {ours}"));
            }
            (Some(_), Some(_)) => *decoded.entry(format!("{:?}", case.wire().unwrap())).or_insert(0) += 1,
            _ => {}
        }
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
    println!("of them through the decoders of production: {decoded:?}");
    for wire in ["Anthropic", "OpenAiChat", "OpenAiResponses", "Gemini", "Cohere"] {
        // Only three of the recorded answers are Gemini's.
        let fewest = if wire == "Gemini" { 3 } else { FEWEST_DECODED };
        assert!(decoded.get(wire).is_some_and(|count| *count >= fewest), "{wire}: {decoded:?}");
    }
    assert!(
        wrong.is_empty(),
        "{} differ, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    assert!(
        bodies.len() >= FEWEST && providers.len() >= FEWEST_PROVIDERS,
        "too few calls for a meaningful comparison"
    );
}
