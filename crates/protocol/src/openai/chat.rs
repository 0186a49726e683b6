//! Chat completions and their chunks.

use serde::Serialize;

use super::response::Usage;

/// A completion.
///
/// ```json
/// {"id": "chatcmpl-0190…", "object": "chat.completion", "created": 1795338000, "model": "goal",
///  "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello", "refusal": null}, "finish_reason": "stop",
///               "logprobs": null}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Completion {
    /// `chatcmpl-` and the digits of the run's id.
    pub id: String,
    /// `chat.completion`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: i64,
    /// The kind or the agent, as the request named it.
    pub model: String,
    /// One.
    pub choices: [Choice; 1],
    /// The tokens of the run.
    pub usage: Option<ChatUsage>,
    /// The thread, for `metadata.conversation` of the next request.
    pub conversation: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// 0.
    pub index: u32,
    /// What the agent said.
    pub message: ChatMessage,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Always null.
    pub logprobs: Option<()>,
}

/// What the agent said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatMessage {
    /// `assistant`.
    pub role: &'static str,
    /// The text; null if there is none.
    pub content: Option<String>,
    /// Always null.
    pub refusal: Option<()>,
    /// Functions that the client must call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
}

/// A function that the client must call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatToolCall {
    /// Its number; only in chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// What the answer refers to.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The function.
    pub function: ChatFunction,
}

/// A function with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatFunction {
    /// Its name.
    pub name: String,
    /// A JSON object as text.
    pub arguments: String,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The agent has finished.
    Stop,
    /// It was cut off.
    Length,
    /// It was withheld.
    ContentFilter,
    /// Functions must be called.
    ToolCalls,
}

/// The tokens of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChatUsage {
    /// Tokens sent, cached or not.
    pub prompt_tokens: u64,
    /// Tokens received, including reasoning.
    pub completion_tokens: u64,
    /// The sum.
    pub total_tokens: u64,
    /// How many tokens sent were cached.
    pub prompt_tokens_details: PromptTokens,
    /// How many tokens received were reasoning.
    pub completion_tokens_details: CompletionTokens,
}

/// `{"cached_tokens": 700}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PromptTokens {
    /// Read from the provider's cache.
    pub cached_tokens: u64,
}

/// `{"reasoning_tokens": 0}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CompletionTokens {
    /// Spent on reasoning.
    pub reasoning_tokens: u64,
}

impl From<Usage> for ChatUsage {
    fn from(of: Usage) -> Self {
        Self {
            prompt_tokens: of.input_tokens,
            completion_tokens: of.output_tokens,
            total_tokens: of.total_tokens,
            prompt_tokens_details: PromptTokens { cached_tokens: of.input_tokens_details.cached_tokens },
            completion_tokens_details: CompletionTokens {
                reasoning_tokens: of.output_tokens_details.reasoning_tokens,
            },
        }
    }
}

/// A piece of a completion that is streamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chunk<'c> {
    /// As in [`Completion`].
    pub id: &'c str,
    /// `chat.completion.chunk`.
    pub object: &'static str,
    /// As in [`Completion`].
    pub created: i64,
    /// As in [`Completion`].
    pub model: &'c str,
    /// One; none in the chunk with the usage.
    pub choices: Vec<ChunkChoice<'c>>,
    /// Only in the last chunk, if the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsage>,
}

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChunkChoice<'c> {
    /// 0.
    pub index: u32,
    /// What is new.
    pub delta: ChunkDelta<'c>,
    /// Only in the last piece.
    pub finish_reason: Option<FinishReason>,
    /// Always null.
    pub logprobs: Option<()>,
}

/// What is new.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChunkDelta<'c> {
    /// `assistant`, in the first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'c str>,
    /// Functions that the client must call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
}
