//! The shapes of an answer. What a stream tells piece by piece as one object, an answer in one piece has as a
//! list; they are read as the same.

use houston_domain::model::{StopReason, Usage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// What the reasoning of a history was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reasoning {
    /// Content of its own.
    Thinking,
    /// The plan before tool calls.
    Plan,
}

/// One event of a stream.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default, borrow)]
    pub(super) delta: Option<Delta<'a>>,
}

/// What is new; also an answer in one piece.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(default, borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
    #[serde(default)]
    pub(super) usage: Option<ReportedUsage>,
    #[serde(default)]
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default)]
    pub(super) content: Pieces<Content>,
    #[serde(default)]
    pub(super) tool_plan: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Pieces<Call>,
    /// One, or a list.
    #[serde(default, borrow)]
    pub(super) citations: Option<&'a RawValue>,
}

/// One object, a list of them, or nothing.
pub(super) struct Pieces<T>(pub(super) Vec<T>);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Pieces<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(json) = Option::<&RawValue>::deserialize(deserializer)? else { return Ok(Self::default()) };
        let json = json.get();
        let pieces = if json.starts_with('[') {
            serde_json::from_str(json)
        } else {
            serde_json::from_str(json).map(|one| vec![one])
        };
        pieces.map(Self).map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
pub(super) struct Content {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Call {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<Function>,
}

#[derive(Deserialize)]
pub(super) struct Function {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<String>,
}

/// Two counts: of all tokens, and of those that are billed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    tokens: Option<Count>,
    billed_units: Option<Count>,
    cached_tokens: Option<f64>,
}

/// Cohere's numbers may have a fraction (`12.0`).
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Count {
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    reasoning_tokens: Option<f64>,
}

impl ReportedUsage {
    /// In our terms: everything that was sent counts, what Cohere adds and does not bill included.
    pub(super) fn normalised(self) -> Usage {
        let all = self.tokens.or(self.billed_units).unwrap_or_default();
        let (input_tokens, output_tokens) = (whole(all.input_tokens), whole(all.output_tokens));
        Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: whole(self.cached_tokens).min(input_tokens),
            reasoning_tokens: whole(all.reasoning_tokens).min(output_tokens),
            ..Usage::default()
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn whole(number: Option<f64>) -> u64 {
    number.unwrap_or_default() as u64
}

/// `None` when the provider gave up instead of finishing.
pub(super) fn stop_reason(finish_reason: &str) -> Option<StopReason> {
    match finish_reason {
        "TOOL_CALL" => Some(StopReason::ToolUse),
        "MAX_TOKENS" => Some(StopReason::MaxTokens),
        "ERROR_TOXIC" => Some(StopReason::Refusal),
        _ if finish_reason.starts_with("ERROR") || finish_reason == "TIMEOUT" => None,
        _ => Some(StopReason::EndTurn),
    }
}
