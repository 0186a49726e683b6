//! [`Wire`]: the protocol of a provider by its name, and its addresses. Module `wire` speaks it.

use serde::{Deserialize, Serialize};

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
}

fn versioned(path: &str, has_version: bool, version: &str) -> String {
    format!("{path}{}", if has_version { "" } else { version })
}

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
