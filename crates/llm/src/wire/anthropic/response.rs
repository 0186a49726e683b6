//! The types of streamed and complete answers.

use std::borrow::Cow;

use houston_domain::model::{ModelError, PricedApart, StopReason, Tier, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::AnswerEnd;
use super::super::fields::{Arguments, Count, lenient, null_is_default, text};
use super::super::usage::small;

/// An event of a stream; its `type` determines the other fields.
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

/// The content of `message_start`.
#[derive(Deserialize)]
pub(super) struct MessageStart {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
}

/// The new content of a block; only the field of its type is set.
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
    /// The summary in a compaction block.
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

/// A complete answer.
#[derive(Deserialize)]
pub(super) struct WholeMessage {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) content: Vec<Box<RawValue>>,
    #[serde(default, deserialize_with = "text")]
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
}

/// Usage as reported. Counts are cumulative; a missing count keeps its previous value.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    /// Cache writes by lifetime.
    #[serde(deserialize_with = "lenient")]
    cache_creation: Option<CacheCreation>,
    #[serde(deserialize_with = "lenient")]
    output_tokens_details: Option<OutputDetails>,
    #[serde(deserialize_with = "lenient")]
    server_tool_use: Option<ServerToolUse>,
    /// Whether it was part of a batch. What it calls `priority` was paid for before.
    #[serde(deserialize_with = "lenient")]
    service_tier: ServiceTier,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ServiceTier {
    Batch,
    #[default]
    #[serde(other)]
    Usual,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Count,
    ephemeral_1h_input_tokens: Count,
}

impl CacheCreation {
    fn long(self) -> u64 {
        self.ephemeral_1h_input_tokens.or_zero()
    }

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
    /// Merges a later report.
    pub(super) fn update(&mut self, later: Self) {
        self.input_tokens = self.input_tokens.updated(later.input_tokens);
        self.output_tokens = self.output_tokens.updated(later.output_tokens);
        self.cache_creation_input_tokens =
            self.cache_creation_input_tokens.updated(later.cache_creation_input_tokens);
        self.cache_read_input_tokens = self.cache_read_input_tokens.updated(later.cache_read_input_tokens);
        self.cache_creation =
            later.cache_creation.filter(|created| created.total() > 0).or(self.cache_creation);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
        self.server_tool_use = later.server_tool_use.or(self.server_tool_use);
        if later.service_tier != ServiceTier::Usual {
            self.service_tier = later.service_tier;
        }
    }

    /// Converts to Houston's [`Usage`]: Anthropic's input count excludes cached tokens.
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
            long_cache_write_tokens: self.cache_creation.map_or(0, CacheCreation::long).min(write),
            reasoning_tokens: thinking.min(output_tokens),
            tier: (self.service_tier == ServiceTier::Batch).then_some(Tier::Batch),
            apart: PricedApart {
                web_searches: small(
                    self.server_tool_use.map_or(0, |used| used.web_search_requests.or_zero()),
                ),
                ..PricedApart::NOTHING
            },
            ..Usage::default()
        }
    }
}

/// Maps a stop reason. `pause_turn` means that the answer is incomplete because a server-side tool takes long:
/// <https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons>.
///
/// # Errors
/// `INVALID_RESPONSE` for a reason that Anthropic does not define, unless `end` is [`AnswerEnd::Unknown`]: then it
/// counts as a normal end.
pub(super) fn stop_reason(reason: &str, end: AnswerEnd) -> Result<StopReason, ModelError> {
    Ok(match reason {
        "" | "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "pause_turn" => StopReason::Paused,
        "refusal" => StopReason::Refusal,
        // Other servers with this protocol use OpenAI's finish reasons.
        other => return super::super::finish_reason::stop_reason(other, end),
    })
}
