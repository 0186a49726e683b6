//! Wires: what providers speak. Each is a folder of functions free of I/O: `request` turns a
//! [`Request`] into bytes, `stream` turns the data of stream events into [`Event`]s, and `response` holds the
//! shapes both ways of answering share.

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
pub(crate) mod usage;

use std::collections::VecDeque;

use houston_domain::model::ModelError;
use serde::{Deserialize, Serialize};

use crate::framing::Framing;
use crate::model::{Description, Event, Request};

/// What a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, which most others speak too.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// OpenAI's Responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Google's Gemini.
    Gemini,
    /// Cohere's Chat, version 2.
    Cohere,
    /// Ollama's own chat.
    Ollama,
}

/// Where a provider departs from its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Whether the limit of the answer is called `max_completion_tokens` and not `max_tokens`.
    pub max_completion_tokens: bool,
    /// Whether it accepts `stream_options`.
    pub stream_options: bool,
    /// Whether call ids must be exactly nine letters or digits.
    pub nine_character_ids: bool,
    /// Whether it refuses a history whose tool calls come without `reasoning_content`, even an empty one.
    pub wants_reasoning_back: bool,
    /// Whether it refuses what a user says right after a tool's answer.
    pub assistant_after_tools: bool,
    /// Whether it accepts `prompt_cache_key`.
    pub prompt_cache_key: bool,
    /// How it is held to a form of the answer.
    pub answer_form: AnswerForm,
    /// How the end of its stream is recognised, in OpenAI's chat.
    pub answer_end: AnswerEnd,
}

/// How the end of a chat stream is recognised. A connection that is closed before is an answer that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// At `[DONE]`, as OpenAI documents it:
    /// <https://platform.openai.com/docs/api-reference/chat-streaming>.
    DoneMark,
    /// At a finish reason and the end of the connection: it never sends `[DONE]`.
    FinishReason,
    /// At `[DONE]`; or, where the server does not send it, at a finish reason, a report of the tokens used, and the
    /// end of the connection. Whoever set up the server knows what it is, Houston does not. Finish reasons that are
    /// not known are taken as a normal end.
    Unknown,
}

/// How a provider is held to a form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// It takes the schema.
    JsonSchema,
    /// It promises some JSON object; the schema is told to the model.
    JsonObject,
    /// It promises nothing, or not in a stream; the schema is told to the model.
    Told,
}

impl Dialect {
    /// What most providers that speak OpenAI's chat accept.
    pub const COMPATIBLE: Self = Self {
        max_completion_tokens: false,
        stream_options: true,
        nine_character_ids: false,
        wants_reasoning_back: false,
        assistant_after_tools: false,
        prompt_cache_key: false,
        answer_form: AnswerForm::JsonSchema,
        answer_end: AnswerEnd::DoneMark,
    };
    /// OpenAI's reasoning models refuse `max_tokens`.
    pub const OPENAI: Self = Self { max_completion_tokens: true, prompt_cache_key: true, ..Self::COMPATIBLE };
    /// Mistral refuses unknown fields and foreign call ids, and reports usage unasked. Between a tool and the user it wants
    /// a word of the model (`Unexpected role 'user' after role 'tool'`, code 3230):
    /// <https://github.com/datapizza-labs/datapizza-ai/issues/98>.
    pub const MISTRAL: Self = Self {
        stream_options: false,
        nine_character_ids: true,
        assistant_after_tools: true,
        ..Self::COMPATIBLE
    };
    /// DeepSeek thinks by default, and answers 400 when a tool call comes back without its reasoning. It refuses
    /// `json_schema`.
    pub const DEEPSEEK: Self =
        Self { wants_reasoning_back: true, answer_form: AnswerForm::JsonObject, ..Self::COMPATIBLE };
    /// Groq holds few models to a schema, and none in a stream or beside tools:
    /// <https://console.groq.com/docs/structured-outputs>.
    pub const GROQ: Self = Self { answer_form: AnswerForm::Told, ..Self::COMPATIBLE };
    /// Perplexity reports usage unasked and never sends `[DONE]`: none of 12 recorded streams has it, and its stream
    /// ends with the chunk whose finish reason is `stop`: <https://docs.perplexity.ai/guides/streaming-responses>.
    pub const PERPLEXITY: Self =
        Self { stream_options: false, answer_end: AnswerEnd::FinishReason, ..Self::COMPATIBLE };
    /// A server that Houston knows nothing of but its address.
    pub const UNKNOWN_SERVER: Self = Self { answer_end: AnswerEnd::Unknown, ..Self::COMPATIBLE };
}

/// Reads one answer. It is told of every event, and says with [`Event::Done`] that the answer is complete.
pub(crate) trait Decoder: Send {
    /// Reads the data of one stream event and appends what it means to `out`.
    ///
    /// # Errors
    /// What the provider reports, or `INVALID_RESPONSE` for what cannot be read.
    fn event(&mut self, name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError>;

    /// Takes note that the connection was closed.
    ///
    /// # Errors
    /// `NETWORK_ERROR` unless the wire's own end was seen.
    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError>;

    /// Reads an answer that came in one piece, from a server that does not stream.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    fn whole(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError>;
}

impl Wire {
    /// Where requests for `model` go, under `base`. An address without a path gets the version that every such
    /// server has; Anthropic's own convention is to leave it out always. `None` when `base` is no HTTP address.
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
            // Tuned models name their own collection.
            Self::Gemini => {
                let collection = if model.contains('/') { "" } else { "models/" };
                let operation = format!("{collection}{model}:streamGenerateContent");
                (versioned(path, !path.is_empty(), "/v1beta"), operation)
            }
            Self::Cohere => (versioned(path, !path.is_empty(), "/v2"), "chat".to_owned()),
            // The address of its OpenAI endpoint will do too.
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

    /// The body of a request, JSON.
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

    /// A decoder for one answer of `provider`.
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

    /// How its streams are cut into events.
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
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_as_its_owners_expect() {
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
