//! The shapes of an answer: a stream is made of chunks of the same form as a whole answer.

use std::borrow::Cow;

use houston_domain::model::{StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::openai_chat::response::null_is_default;

/// A chunk, or a whole answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) candidates: Vec<Candidate<'a>>,
    #[serde(default)]
    pub(super) prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    pub(super) usage_metadata: Option<ReportedUsage>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// One of the answers asked for. Only the first is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) content: Content<'a>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
    #[serde(default)]
    pub(super) finish_message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Content<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub(super) parts: Vec<&'a RawValue>,
}

/// A part; what it is shows in which field is there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thought: bool,
    #[serde(default, borrow)]
    pub(super) thought_signature: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default, borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) args: Option<&'a RawValue>,
    /// Arguments in pieces, which nobody asked for.
    #[serde(default)]
    pub(super) will_continue: bool,
    #[serde(default, borrow)]
    pub(super) partial_args: Option<&'a RawValue>,
}

/// Why there is no answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    #[serde(default)]
    pub(super) block_reason: Option<String>,
}

/// Usage as reported. Counts are cumulative, and what is missing later stays as it was.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ReportedUsage {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
}

impl ReportedUsage {
    /// Takes over what a later report says.
    pub(super) fn update(&mut self, later: Self) {
        self.prompt_token_count = later.prompt_token_count.or(self.prompt_token_count);
        self.candidates_token_count = later.candidates_token_count.or(self.candidates_token_count);
        self.thoughts_token_count = later.thoughts_token_count.or(self.thoughts_token_count);
        self.cached_content_token_count =
            later.cached_content_token_count.or(self.cached_content_token_count);
        self.tool_use_prompt_token_count =
            later.tool_use_prompt_token_count.or(self.tool_use_prompt_token_count);
    }

    /// In our terms: Gemini counts thoughts beside the answer, and what tools on its side gave the model beside
    /// the prompt.
    pub(super) fn normalised(self) -> Usage {
        let input_tokens =
            self.prompt_token_count.unwrap_or(0) + self.tool_use_prompt_token_count.unwrap_or(0);
        let thoughts = self.thoughts_token_count.unwrap_or(0);
        Usage {
            input_tokens,
            output_tokens: self.candidates_token_count.unwrap_or(0) + thoughts,
            cache_read_tokens: self.cached_content_token_count.unwrap_or(0).min(input_tokens),
            cache_write_tokens: 0,
            reasoning_tokens: thoughts,
            cost: None,
        }
    }
}

/// Why it stopped. `None` when the model failed: calls it may not make, or cannot write down.
pub(super) fn stop_reason(finish_reason: &str) -> Option<StopReason> {
    match finish_reason {
        "MAX_TOKENS" => Some(StopReason::MaxTokens),
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Some(StopReason::Refusal),
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE"
        | "NO_IMAGE"
        | "OTHER"
        | "IMAGE_OTHER" => None,
        _ => Some(StopReason::EndTurn),
    }
}
