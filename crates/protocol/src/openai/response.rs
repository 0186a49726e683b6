//! How far a response is, and what it took.

use serde::Serialize;
use serde_json::{Value, json};

use crate::agui::TokenUsage;

/// How far a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }
}

/// The `usage` of a response.
pub fn usage(of: &TokenUsage) -> Value {
    json!({
        "input_tokens": of.input_tokens,
        "input_tokens_details": {
            "cached_tokens": of.cached_input_tokens, "cache_write_tokens": of.cache_write_input_tokens,
        },
        "output_tokens": of.output_tokens,
        "output_tokens_details": {"reasoning_tokens": of.reasoning_tokens},
        "total_tokens": of.total_tokens,
    })
}

/// The `usage` of a chat completion.
pub fn chat_usage(of: &TokenUsage) -> Value {
    json!({
        "prompt_tokens": of.input_tokens,
        "completion_tokens": of.output_tokens,
        "total_tokens": of.total_tokens,
        "prompt_tokens_details": {"cached_tokens": of.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": of.reasoning_tokens},
    })
}

/// A page of a list, whose items have an `id`.
pub fn list(data: &[Value], has_more: bool) -> Value {
    let id = |item: Option<&Value>| item.map(|item| item["id"].clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    json!({"object": "list", "data": data, "first_id": first_id, "last_id": last_id, "has_more": has_more})
}
