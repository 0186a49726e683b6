//! Wires: the protocols of providers, free of I/O. Each is a folder: `request` encodes a [`Request`] as JSON,
//! `stream` decodes stream events into [`Event`]s, `response` has the types shared by streamed and complete answers.

pub(crate) mod anthropic;
pub(crate) mod arguments;
pub(crate) mod cohere;
pub(crate) mod conversation;
pub(crate) mod fields;
pub(crate) mod finish_reason;
pub(crate) mod function;
pub(crate) mod gemini;
pub(crate) mod identifier;
pub(crate) mod ollama;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
pub(crate) mod repair;
pub(crate) mod schema;
pub(crate) mod think_tag;
pub(crate) mod tool_schema;
pub(crate) mod usage;

use std::collections::VecDeque;

use houston_domain::model::{ModelError, Usage};
use serde::{Deserialize, Serialize};

use crate::framing::Framing;
use crate::model::{Description, Event, Request};

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, also used by most other providers.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Google Gemini.
    Gemini,
    /// Cohere Chat, version 2.
    Cohere,
    /// Ollama's own chat API.
    Ollama,
}

/// Deviations of a provider from its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Sends the output limit as `max_completion_tokens` instead of `max_tokens`.
    pub max_completion_tokens: bool,
    /// Accepts `stream_options`.
    pub stream_options: bool,
    /// Requires call ids of exactly nine letters or digits.
    pub nine_character_ids: bool,
    /// Rejects tool calls in the history without `reasoning_content`; an empty one is sent if there is none.
    pub requires_reasoning_content: bool,
    /// Rejects a user message directly after a tool result; an assistant message (`OK.`) is inserted.
    pub requires_assistant_after_tool: bool,
    /// Accepts `prompt_cache_key`.
    pub prompt_cache_key: bool,
    /// How it is made to follow an answer schema.
    pub schema_support: SchemaSupport,
    /// How the end of its stream is recognised (Chat Completions).
    pub answer_end: AnswerEnd,
}

/// How the end of a chat stream is recognised. If the connection closes earlier, the answer was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// By `[DONE]`, as OpenAI documents it: <https://platform.openai.com/docs/api-reference/chat-streaming>.
    DoneMark,
    /// By a finish reason and the end of the connection, for a provider that never sends `[DONE]`.
    FinishReason,
    /// By `[DONE]`; if the server does not send it, by a finish reason, a usage report and the end of the connection.
    /// For servers configured by address only, whose software Houston does not know. Unknown finish reasons count as
    /// a normal end.
    Unknown,
}

/// How a provider is made to follow an answer schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaSupport {
    /// It accepts the schema.
    JsonSchema,
    /// It guarantees a JSON object; the schema is described in the prompt.
    JsonObject,
    /// It guarantees nothing, or not in a stream; the schema is described in the prompt.
    PromptOnly,
}

impl Dialect {
    /// The features of most OpenAI-compatible providers.
    pub const COMPATIBLE: Self = Self {
        max_completion_tokens: false,
        stream_options: true,
        nine_character_ids: false,
        requires_reasoning_content: false,
        requires_assistant_after_tool: false,
        prompt_cache_key: false,
        schema_support: SchemaSupport::JsonSchema,
        answer_end: AnswerEnd::DoneMark,
    };
    /// OpenAI's reasoning models reject `max_tokens`.
    pub const OPENAI: Self = Self { max_completion_tokens: true, prompt_cache_key: true, ..Self::COMPATIBLE };
    /// Mistral rejects unknown fields and call ids of other formats, and always reports usage. It requires an
    /// assistant message between a tool result and a user message (`Unexpected role 'user' after role 'tool'`, code
    /// 3230): <https://github.com/datapizza-labs/datapizza-ai/issues/98>.
    pub const MISTRAL: Self = Self {
        stream_options: false,
        nine_character_ids: true,
        requires_assistant_after_tool: true,
        ..Self::COMPATIBLE
    };
    /// DeepSeek reasons by default, and answers 400 when a tool call is sent back without its reasoning. It rejects
    /// `json_schema`.
    pub const DEEPSEEK: Self = Self {
        requires_reasoning_content: true,
        schema_support: SchemaSupport::JsonObject,
        ..Self::COMPATIBLE
    };
    /// Groq supports schemas for few models, and never in a stream or together with tools:
    /// <https://console.groq.com/docs/structured-outputs>.
    pub const GROQ: Self = Self { schema_support: SchemaSupport::PromptOnly, ..Self::COMPATIBLE };
    /// Perplexity always reports usage and never sends `[DONE]`: none of 12 recorded streams has it, and its stream
    /// ends with the chunk whose finish reason is `stop`: <https://docs.perplexity.ai/guides/streaming-responses>.
    pub const PERPLEXITY: Self =
        Self { stream_options: false, answer_end: AnswerEnd::FinishReason, ..Self::COMPATIBLE };
    /// A server of which only the address is known.
    pub const UNKNOWN_SERVER: Self = Self { answer_end: AnswerEnd::Unknown, ..Self::COMPATIBLE };
}

/// Decodes one answer. Yields [`Event::Done`] when the answer is complete.
pub(crate) trait Decoder: Send {
    /// Decodes the data of one stream event and appends the result to `out`.
    ///
    /// # Errors
    /// The error reported by the provider, or `INVALID_RESPONSE` for data that cannot be decoded.
    fn event(&mut self, name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError>;

    /// Handles the end of the connection.
    ///
    /// # Errors
    /// `NETWORK_ERROR` unless the end mark of the wire was received.
    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError>;

    /// What the provider has counted so far; 0 where it has not.
    fn counted(&self) -> Usage {
        Usage::default()
    }

    /// Decodes a complete answer from a server that does not stream.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError>;
}

impl Wire {
    /// The URL for requests to `model`. A `base` without a path gets the wire's usual version. For Anthropic, `/v1` is
    /// appended to any path that does not end with it, which is its own convention. `None` when `base` is not an HTTP
    /// URL.
    pub(crate) fn url(self, base: &str, model: &str) -> Option<reqwest::Url> {
        let mut url = reqwest::Url::parse(base.trim()).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        let path = url.path().trim_end_matches('/');
        let (path, operation) = match self {
            Self::Anthropic => (versioned(path, path.ends_with("/v1"), "/v1"), "messages".to_owned()),
            Self::OpenAiChat => (versioned(path, !path.is_empty(), "/v1"), "chat/completions".to_owned()),
            Self::OpenAiResponses => (versioned(path, !path.is_empty(), "/v1"), "responses".to_owned()),
            // Tuned models are in a collection of their own.
            Self::Gemini => {
                let collection = if model.contains('/') { "" } else { "models/" };
                let operation = format!("{collection}{model}:streamGenerateContent");
                (versioned(path, !path.is_empty(), "/v1beta"), operation)
            }
            Self::Cohere => (versioned(path, !path.is_empty(), "/v2"), "chat".to_owned()),
            // The address of its OpenAI-compatible endpoint is accepted, too.
            Self::Ollama => {
                (path.trim_end_matches("/v1").trim_end_matches("/api").to_owned(), "api/chat".to_owned())
            }
        };
        let path = format!("{path}/{operation}");
        url.set_path(&path);
        if self == Self::Gemini {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        Some(url)
    }

    /// The body of a request, as JSON.
    pub(crate) fn encode(self, model: &Description, dialect: Dialect, request: &Request<'_>) -> Vec<u8> {
        match self {
            Self::Anthropic => anthropic::request::encode(model, request),
            Self::OpenAiChat => openai_chat::request::encode(model, dialect, request),
            Self::OpenAiResponses => openai_responses::request::encode(model, request),
            Self::Gemini => gemini::request::encode(model, request),
            Self::Cohere => cohere::request::encode(model, request),
            Self::Ollama => ollama::request::encode(model, request),
        }
    }

    /// What it accepts in the schema of a tool's arguments.
    pub(crate) fn tool_rules(self) -> &'static tool_schema::Rules {
        match self {
            Self::Anthropic => &tool_schema::ANTHROPIC,
            Self::OpenAiChat | Self::OpenAiResponses => &tool_schema::OPENAI,
            Self::Gemini => &tool_schema::GEMINI,
            Self::Cohere => &tool_schema::COHERE,
            Self::Ollama => &tool_schema::OLLAMA,
        }
    }

    /// Creates a decoder for one answer of `provider`.
    pub(crate) fn decoder(self, provider: &str, dialect: Dialect) -> Box<dyn Decoder> {
        let end = dialect.answer_end;
        match self {
            Self::Anthropic => Box::new(anthropic::stream::AnthropicDecoder::new(provider, end)),
            Self::OpenAiChat => Box::new(openai_chat::stream::ChatDecoder::new(provider, end)),
            Self::OpenAiResponses => Box::new(openai_responses::stream::ResponsesDecoder::new(provider)),
            Self::Gemini => Box::new(gemini::stream::GeminiDecoder::new(provider)),
            Self::Cohere => Box::new(cohere::stream::CohereDecoder::new(provider, end)),
            Self::Ollama => Box::new(ollama::stream::OllamaDecoder::new(provider, end)),
        }
    }

    /// How its streams are split into events.
    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Ollama => Framing::lines(),
            _ => Framing::sse(),
        }
    }
}

fn versioned(path: &str, has_version: bool, version: &str) -> String {
    format!("{path}{}", if has_version { "" } else { version })
}

#[cfg(test)]
mod context_tests;
#[cfg(test)]
mod forced_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_is_completed_per_wire() {
        for (wire, base, url) in [
            (Wire::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (Wire::Anthropic, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            (
                Wire::Anthropic,
                "https://api.deepseek.com/anthropic",
                "https://api.deepseek.com/anthropic/v1/messages",
            ),
            (Wire::OpenAiChat, "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
            (Wire::OpenAiChat, "https://h/openai/v1", "https://h/openai/v1/chat/completions"),
            (
                Wire::OpenAiChat,
                "https://h/d/gpt?api-version=1",
                "https://h/d/gpt/chat/completions?api-version=1",
            ),
            (Wire::OpenAiResponses, "https://h", "https://h/v1/responses"),
            (
                Wire::OpenAiResponses,
                "https://h/openai/v1?api-version=preview",
                "https://h/openai/v1/responses?api-version=preview",
            ),
            (
                Wire::Gemini,
                "https://generativelanguage.googleapis.com/v1beta",
                "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
            ),
            (
                Wire::Gemini,
                "http://127.0.0.1:9",
                "http://127.0.0.1:9/v1beta/models/m:streamGenerateContent?alt=sse",
            ),
            (Wire::Gemini, "https://h/v1?key=k", "https://h/v1/models/m:streamGenerateContent?key=k&alt=sse"),
            (Wire::Cohere, "https://api.cohere.com/v2", "https://api.cohere.com/v2/chat"),
            (Wire::Cohere, "https://api.cohere.com", "https://api.cohere.com/v2/chat"),
            (Wire::Ollama, "http://127.0.0.1:11434", "http://127.0.0.1:11434/api/chat"),
            (Wire::Ollama, "http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/api/chat"),
            (Wire::Ollama, "https://h/ollama/api", "https://h/ollama/api/chat"),
        ] {
            assert_eq!(wire.url(base, "m").unwrap().as_str(), url);
        }
        let tuned = Wire::Gemini.url("https://h/v1beta", "tunedModels/m").unwrap();
        assert_eq!(tuned.as_str(), "https://h/v1beta/tunedModels/m:streamGenerateContent?alt=sse");
        assert!(Wire::Anthropic.url("file:///etc/passwd", "m").is_none());
        assert!(Wire::Anthropic.url("127.0.0.1:80", "m").is_none());
    }
}
