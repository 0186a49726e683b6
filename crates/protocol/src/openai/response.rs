//! The response object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::item::OutputItem;
use crate::agui::TokenUsage;

/// How far a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No worker has begun.
    Queued,
    /// A worker works on it, or it waits for something that is no one's to answer.
    InProgress,
    /// The agent has finished, or needs an answer to its last items.
    Completed,
    /// It was cut off: `incomplete_details` says by what.
    Incomplete,
    /// The model could not be reached, or its answer could not be used.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// Whether nothing more comes.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }
}

/// A response: one run, or the part of one between two answers of a person.
///
/// ```json
/// {"id": "resp_0190…", "object": "response", "created_at": 1795338000, "status": "completed", "model": "goal",
///  "output": [{"type": "message", "id": "msg_0190…", "status": "completed", "role": "assistant",
///              "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]}],
///  "conversation": {"id": "conv_goal_0190…"}, "usage": {"input_tokens": 900, "output_tokens": 40, "total_tokens": 940}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Response {
    /// `resp_…`.
    pub id: String,
    /// `response`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created_at: i64,
    /// How far it is.
    pub status: Status,
    /// Whether the request asked not to wait.
    pub background: bool,
    /// Why it failed.
    pub error: Option<ResponseError>,
    /// What cut it off.
    pub incomplete_details: Option<IncompleteDetails>,
    /// Always null: an agent has its own.
    pub instructions: Option<String>,
    /// Always null.
    pub max_output_tokens: Option<u64>,
    /// The request's metadata.
    pub metadata: BTreeMap<String, String>,
    /// The kind or the agent, as the request named it.
    pub model: String,
    /// What the agent said and did, in order.
    pub output: Vec<OutputItem>,
    /// Always true.
    pub parallel_tool_calls: bool,
    /// The response before, if the request named it.
    pub previous_response_id: Option<String>,
    /// The thread.
    pub conversation: Conversation,
    /// Without values: an agent has settings of its own.
    pub reasoning: Reasoning,
    /// Always true.
    pub store: bool,
    /// Always null.
    pub temperature: Option<f64>,
    /// Always text.
    pub text: Text,
    /// Always `auto`.
    pub tool_choice: &'static str,
    /// Always empty: an agent has its own.
    pub tools: [(); 0],
    /// Always null.
    pub top_p: Option<f64>,
    /// Always `disabled`.
    pub truncation: &'static str,
    /// The tokens of the run, once it has ended.
    pub usage: Option<Usage>,
}

/// The thread of a response: `{"id": "conv_goal_0190…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// `conv_` and Houston's id.
    pub id: String,
}

/// Settings of the reasoning, which are unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Always null.
    pub effort: Option<()>,
    /// Always null.
    pub summary: Option<()>,
}

/// The form of the output: `{"format": {"type": "text"}}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Text {
    /// Text.
    pub format: TextFormat,
}

/// `{"type": "text"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TextFormat {
    /// `text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

impl Default for TextFormat {
    fn default() -> Self {
        Self { kind: "text" }
    }
}

/// Why a response failed: `{"code": "server_error", "message": "The AI model is busy right now."}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseError {
    /// `server_error` or `rate_limit_exceeded`.
    pub code: String,
    /// For end users.
    pub message: String,
}

/// What cut a response off: `{"reason": "max_output_tokens"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// `max_output_tokens`, `content_filter`, or a stop rule of Houston.
    pub reason: String,
}

/// The tokens of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent, cached or not.
    pub input_tokens: u64,
    /// How many of them were cached.
    pub input_tokens_details: InputTokens,
    /// Tokens received, including reasoning.
    pub output_tokens: u64,
    /// How many of them were reasoning.
    pub output_tokens_details: OutputTokens,
    /// The sum.
    pub total_tokens: u64,
}

/// `{"cached_tokens": 700}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputTokens {
    /// Read from the provider's cache.
    pub cached_tokens: u64,
    /// Written to it.
    pub cache_write_tokens: u64,
}

/// `{"reasoning_tokens": 0}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTokens {
    /// Spent on reasoning.
    pub reasoning_tokens: u64,
}

impl From<&TokenUsage> for Usage {
    fn from(of: &TokenUsage) -> Self {
        Self {
            input_tokens: of.input_tokens,
            input_tokens_details: InputTokens {
                cached_tokens: of.cached_input_tokens,
                cache_write_tokens: of.cache_write_input_tokens,
            },
            output_tokens: of.output_tokens,
            output_tokens_details: OutputTokens { reasoning_tokens: of.reasoning_tokens },
            total_tokens: of.total_tokens,
        }
    }
}
