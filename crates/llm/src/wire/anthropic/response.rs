//! The shapes of an answer, in a stream or in one piece.

use std::borrow::Cow;

use houston_domain::model::{ModelError, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::AnswerEnd;
use super::super::fields::{Arguments, Count, lenient, null_is_default, text};

/// An event of the stream; which fields it has depends on its `type`.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", default, borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<MessageStart>,
    #[serde(default, borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
}

/// What is told at the start.
#[derive(Deserialize)]
pub(super) struct MessageStart {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
}

/// What is new; only the field of its kind is there.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(deserialize_with = "text")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) thinking: Option<String>,
    #[serde(deserialize_with = "text")]
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<Arguments>,
    #[serde(deserialize_with = "text")]
    pub(super) stop_reason: Option<String>,
    /// Of a compaction: what the conversation was folded into.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

/// An answer in one piece.
#[derive(Deserialize)]
pub(super) struct WholeMessage {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) content: Vec<Box<RawValue>>,
    #[serde(default, deserialize_with = "text")]
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
}

/// Usage as reported. Counts are cumulative, and what is missing later stays as it was.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    /// The writes again, by how long they last.
    #[serde(deserialize_with = "lenient")]
    cache_creation: Option<CacheCreation>,
    #[serde(deserialize_with = "lenient")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Count,
    ephemeral_1h_input_tokens: Count,
}

impl CacheCreation {
    fn total(self) -> u64 {
        self.ephemeral_5m_input_tokens.or_zero() + self.ephemeral_1h_input_tokens.or_zero()
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
}

impl ReportedUsage {
    /// Takes over what a later report says.
    pub(super) fn update(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation = later.cache_creation.or(self.cache_creation);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
    }

    /// The usage as Houston counts it: Anthropic counts as input only what no cache was involved in.
    pub(super) fn normalised(self) -> Usage {
        let read = self.cache_read_input_tokens.or_zero();
        let by_lifetime = || self.cache_creation.map_or(0, CacheCreation::total);
        let write = self.cache_creation_input_tokens.0.unwrap_or_else(by_lifetime);
        let output_tokens = self.output_tokens.or_zero();
        let thinking = self.output_tokens_details.map_or(0, |details| details.thinking_tokens.or_zero());
        Usage {
            input_tokens: self.input_tokens.or_zero() + read + write,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: write,
            reasoning_tokens: thinking.min(output_tokens),
            ..Usage::default()
        }
    }
}

/// Why it stopped. `pause_turn` means that the answer is not complete (a tool on the provider's side takes long), which
/// is what [`StopReason::MaxTokens`] says; Houston asks for no such tool.
///
/// # Errors
/// `INVALID_RESPONSE` for a reason that Anthropic's protocol does not have; of servers that are not known (`end`), such
/// a reason is a normal end.
pub(super) fn stop_reason(reason: &str, end: AnswerEnd) -> Result<StopReason, ModelError> {
    Ok(match reason {
        "" | "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" | "pause_turn" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        // Of other servers that speak this protocol, and name the reason as OpenAI does.
        other => return super::super::finish_reason::stop_reason(other, end),
    })
}
