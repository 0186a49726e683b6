//! Wires: the protocols of providers, free of I/O. Each is a folder: its `mod.rs` encodes a [`Request`] as JSON, `stream` has
//! the types shared by streamed and complete answers, and decodes stream events into [`Event`]s.

pub(crate) mod anthropic;
pub(crate) mod cohere;
pub(crate) mod conversation;
pub(crate) mod fields;
pub(crate) mod finish_reason;
pub(crate) mod gemini;
pub(crate) mod identifier;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
pub(crate) mod repair;
pub(crate) mod think_tag;
pub(crate) mod tool_schema;

use std::collections::VecDeque;

use houston_domain::model::{ModelError, Usage};
use serde::{Deserialize, Serialize};

use crate::framing::Framing;
use crate::model::{Description, Event, Request};
use crate::profile::{AnswerEnd, Profile};

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
    /// The other protocol at the same address: OpenAI has two.
    pub(crate) fn alternative(self) -> Option<Self> {
        match self {
            Self::OpenAiChat => Some(Self::OpenAiResponses),
            Self::OpenAiResponses => Some(Self::OpenAiChat),
            _ => None,
        }
    }

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
    pub(crate) fn encode(self, model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
        match self {
            Self::Anthropic => anthropic::encode(model, profile, request),
            Self::OpenAiChat => openai_chat::encode(model, profile, request),
            Self::OpenAiResponses => openai_responses::encode(model, profile, request),
            Self::Gemini => gemini::encode(model, profile, request),
            Self::Cohere => cohere::encode(model, profile, request),
            Self::Ollama => ollama::encode(model, profile, request),
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
    pub(crate) fn decoder(self, provider: &str, end: AnswerEnd) -> Box<dyn Decoder> {
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
