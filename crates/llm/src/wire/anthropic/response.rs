//! The shapes of an answer, in a stream or in one piece.

use std::borrow::Cow;

use houston_domain::model::{StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

/// An event of the stream; which fields it has depends on its `type`.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: u64,
    #[serde(default)]
    pub(super) message: Option<MessageStart>,
    #[serde(default, borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(default)]
    pub(super) usage: Option<ReportedUsage>,
}

/// What is told at the start.
#[derive(Deserialize)]
pub(super) struct MessageStart {
    #[serde(default)]
    pub(super) usage: Option<ReportedUsage>,
}

/// What is new; only the field of its kind is there.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
    /// Of a compaction: what the conversation was folded into.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

/// An answer in one piece.
#[derive(Deserialize)]
pub(super) struct WholeMessage {
    pub(super) content: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
    #[serde(default)]
    pub(super) usage: Option<ReportedUsage>,
}

/// Usage as reported. Counts are cumulative, and what is missing later stays as it was.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    /// The writes again, by how long they last.
    cache_creation: Option<CacheCreation>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

impl CacheCreation {
    fn total(self) -> u64 {
        self.ephemeral_5m_input_tokens.unwrap_or(0) + self.ephemeral_1h_input_tokens.unwrap_or(0)
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
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

    /// In our terms: Anthropic counts as input only what no cache was involved in.
    pub(super) fn normalised(self) -> Usage {
        let read = self.cache_read_input_tokens.unwrap_or(0);
        let write = self
            .cache_creation_input_tokens
            .unwrap_or_else(|| self.cache_creation.map_or(0, CacheCreation::total));
        let output_tokens = self.output_tokens.unwrap_or(0);
        let thinking = self.output_tokens_details.and_then(|details| details.thinking_tokens);
        Usage {
            input_tokens: self.input_tokens.unwrap_or(0) + read + write,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: write,
            reasoning_tokens: thinking.unwrap_or(0).min(output_tokens),
            ..Usage::default()
        }
    }
}

/// Why it stopped. `pause_turn` (a tool on the provider's side takes long) ends our turn too: asked again, the
/// model goes on.
pub(super) fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}
