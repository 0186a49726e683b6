//! The types of an answer. Chunks of a stream have the same form as a complete answer.

use houston_domain::model::{ModelError, PricedApart, StopReason, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::super::fields::{Count, Pieces, lenient, null_is_default, text};
use super::super::usage::{clamped, small};
use crate::error;
use crate::shorten::shortened;

/// A chunk, or a complete answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) candidates: Vec<Candidate<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) prompt_feedback: Option<PromptFeedback>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage_metadata: Option<ReportedUsage>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// A candidate answer. Only the first one is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    index: Count,
    #[serde(default, borrow, deserialize_with = "null_is_default")]
    pub(super) content: Content<'a>,
    #[serde(default, deserialize_with = "text")]
    pub(super) finish_reason: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) finish_message: Option<String>,
}

impl Candidate<'_> {
    /// Whether it is the first candidate; Houston requests only one.
    pub(super) fn is_first(&self) -> bool {
        self.index.or_zero() == 0
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Content<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub(super) parts: Vec<&'a RawValue>,
}

/// A part; its kind shows in which field is set.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(default, deserialize_with = "text")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) thought: bool,
    #[serde(default, borrow)]
    pub(super) thought_signature: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(default, deserialize_with = "text")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) name: Option<String>,
    #[serde(default, borrow)]
    pub(super) args: Option<&'a RawValue>,
    /// Announces further arguments of the call. Houston does not request partial arguments.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) will_continue: bool,
    #[serde(default, borrow)]
    pub(super) partial_args: Option<&'a RawValue>,
}

/// Why the prompt was blocked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    #[serde(default, deserialize_with = "text")]
    pub(super) block_reason: Option<String>,
}

/// Usage as reported. Counts are cumulative; a missing count keeps its previous value.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ReportedUsage {
    prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    cached_content_token_count: Count,
    tool_use_prompt_token_count: Count,
    prompt_tokens_details: ByKind,
    tool_use_prompt_tokens_details: ByKind,
    cache_tokens_details: ByKind,
    candidates_tokens_details: ByKind,
}

/// Tokens that are priced otherwise than text, from a list of `{"modality": "AUDIO", "tokenCount": 7}`. Documents are
/// priced as images.
#[derive(Clone, Copy, Default)]
struct ByKind {
    audio: u64,
    image: u64,
}

impl<'de> Deserialize<'de> for ByKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Entry {
            #[serde(deserialize_with = "text")]
            modality: Option<String>,
            token_count: Count,
        }
        let mut sums = Self::default();
        for Entry { modality, token_count } in Pieces::<Entry>::deserialize(deserializer)?.0 {
            match modality.as_deref() {
                Some("AUDIO") => sums.audio += token_count.or_zero(),
                Some("IMAGE" | "DOCUMENT") => sums.image += token_count.or_zero(),
                _ => {}
            }
        }
        Ok(sums)
    }
}

impl ReportedUsage {
    /// Merges a later report.
    pub(super) fn update(&mut self, later: Self) {
        self.prompt_token_count = self.prompt_token_count.updated(later.prompt_token_count);
        self.candidates_token_count = self.candidates_token_count.updated(later.candidates_token_count);
        self.thoughts_token_count = self.thoughts_token_count.updated(later.thoughts_token_count);
        self.cached_content_token_count =
            self.cached_content_token_count.updated(later.cached_content_token_count);
        self.tool_use_prompt_token_count =
            self.tool_use_prompt_token_count.updated(later.tool_use_prompt_token_count);
        for (known, later) in [
            (&mut self.prompt_tokens_details, later.prompt_tokens_details),
            (&mut self.tool_use_prompt_tokens_details, later.tool_use_prompt_tokens_details),
            (&mut self.cache_tokens_details, later.cache_tokens_details),
            (&mut self.candidates_tokens_details, later.candidates_tokens_details),
        ] {
            known.audio = known.audio.max(later.audio);
            known.image = known.image.max(later.image);
        }
    }

    /// Converts to Houston's [`Usage`]: Gemini reports thoughts separately from the output, and the results of its
    /// own tools separately from the prompt.
    pub(super) fn normalised(self) -> Usage {
        let input_tokens = self.prompt_token_count.or_zero() + self.tool_use_prompt_token_count.or_zero();
        let thoughts = self.thoughts_token_count.or_zero();
        let (sent, searched) = (self.prompt_tokens_details, self.tool_use_prompt_tokens_details);
        let (cached, received) = (self.cache_tokens_details, self.candidates_tokens_details);
        clamped(Usage {
            input_tokens,
            output_tokens: self.candidates_token_count.or_zero() + thoughts,
            cache_read_tokens: self.cached_content_token_count.or_zero().min(input_tokens),
            reasoning_tokens: thoughts,
            apart: PricedApart {
                input_audio_tokens: small(sent.audio + searched.audio),
                cached_audio_tokens: small(cached.audio),
                output_audio_tokens: small(received.audio),
                input_image_tokens: small(sent.image + searched.image),
                cached_image_tokens: small(cached.image),
                output_image_tokens: small(received.image),
                web_searches: 0,
            },
            ..Usage::default()
        })
    }
}

/// The stop reason; `None` when no finish reason is given.
///
/// # Errors
/// `INVALID_RESPONSE` when the model failed (a malformed or forbidden tool call), and for an unknown reason: Google's
/// list is closed. `message` is included in the error.
pub(super) fn stop_reason(
    finish_reason: &str,
    message: Option<&str>,
) -> Result<Option<StopReason>, ModelError> {
    let stop = match finish_reason {
        "" | "FINISH_REASON_UNSPECIFIED" => return Ok(None),
        "STOP" => StopReason::EndTurn,
        // Not in Google's enum, but sent by gateways for an answer with tool calls.
        "FUNCTION_CALL" => StopReason::ToolUse,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refusal,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE"
        | "NO_IMAGE"
        | "OTHER"
        | "IMAGE_OTHER" => {
            let why = shortened(message.unwrap_or("no explanation given"), LONGEST_EXPLANATION);
            return Err(error::invalid(format!("the model failed: {finish_reason}: {why}")));
        }
        _ => return Err(error::unknown_end(finish_reason)),
    };
    Ok(Some(stop))
}

/// Longest quoted explanation of the provider, in characters.
const LONGEST_EXPLANATION: usize = 300;
