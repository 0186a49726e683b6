//! The types of an answer. Streams send single objects where complete answers have lists; both are read into the same
//! type.

use houston_domain::model::{BilledTokens, ModelError, ModelErrorCode as Code, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::AnswerEnd;
use super::super::fields::{Arguments, Count, Pieces, lenient, text};
use super::super::finish_reason;
use crate::error;

/// The kind of a reasoning block, stored with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reasoning {
    /// A thinking content block.
    Thinking,
    /// The plan before tool calls.
    Plan,
}

/// An event of a stream.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", default, deserialize_with = "text")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(default, borrow)]
    pub(super) delta: Option<Delta<'a>>,
}

/// New content of a stream, or a complete answer.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(default, borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "text")]
    pub(super) finish_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
    #[serde(default, deserialize_with = "text")]
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default)]
    pub(super) content: Pieces<Content>,
    #[serde(default, deserialize_with = "text")]
    pub(super) tool_plan: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Pieces<Call>,
    /// One citation, or a list of them.
    #[serde(default, borrow)]
    pub(super) citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Content {
    #[serde(default, deserialize_with = "text")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) thinking: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Call {
    #[serde(default, deserialize_with = "text")]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<Function>,
}

#[derive(Deserialize)]
pub(super) struct Function {
    #[serde(default, deserialize_with = "text")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

/// Two usage counts: of all tokens, and of billed tokens.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    #[serde(deserialize_with = "lenient")]
    tokens: Option<Tokens>,
    #[serde(deserialize_with = "lenient")]
    billed_units: Option<Tokens>,
    cached_tokens: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Count,
    output_tokens: Count,
    reasoning_tokens: Count,
}

impl ReportedUsage {
    /// Converts to Houston's [`Usage`]: all tokens fill the context; tokens that Cohere adds itself are not billed.
    pub(super) fn normalised(self) -> Usage {
        let all = self.tokens.or(self.billed_units).unwrap_or_default();
        let (input_tokens, output_tokens) = (all.input_tokens.or_zero(), all.output_tokens.or_zero());
        let billed = self.billed_units.and_then(|units| {
            let (input_tokens, output_tokens) = (units.input_tokens.0?, units.output_tokens.0?);
            Some(BilledTokens { input_tokens, output_tokens })
        });
        Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: self.cached_tokens.or_zero().min(input_tokens),
            reasoning_tokens: all.reasoning_tokens.or_zero().min(output_tokens),
            billed,
            ..Usage::default()
        }
    }
}

/// Maps a finish reason.
///
/// # Errors
/// The provider's error if it gave up (`explanation` is its own text), otherwise as [`finish_reason::stop_reason`].
pub(super) fn stop_reason(
    reason: &str,
    explanation: Option<String>,
    end: AnswerEnd,
) -> Result<StopReason, ModelError> {
    match reason {
        "TOOL_CALL" => Ok(StopReason::ToolUse),
        "MAX_TOKENS" => Ok(StopReason::MaxTokens),
        "ERROR_TOXIC" => Ok(StopReason::Refusal),
        "COMPLETE" | "STOP_SEQUENCE" => Ok(StopReason::EndTurn),
        _ if reason.starts_with("ERROR") || matches!(reason, "TIMEOUT" | "USER_CANCEL") => {
            Err(gave_up(reason, explanation))
        }
        other => finish_reason::stop_reason(other, end),
    }
}

/// The error for a finish reason that means failure.
fn gave_up(reason: &str, explanation: Option<String>) -> ModelError {
    let explanation = explanation.unwrap_or_else(|| format!("the provider broke off its answer ({reason})"));
    let error = error::in_stream(&serde_json::json!({ "error": explanation }).to_string());
    let code = match (error.code, reason) {
        (Code::Unknown, "TIMEOUT") => Code::Timeout,
        (Code::Unknown, "ERROR_LIMIT") => Code::ContextLengthExceeded,
        (Code::Unknown, _) => Code::NetworkError,
        (code, _) => code,
    };
    ModelError { code, ..error }
}
