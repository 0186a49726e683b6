//! What a provider's error says, whatever shape it has.

use std::time::Duration;

use serde_json::Value;

use super::delay;

/// How deep an error is looked for inside another one. OpenRouter wraps a provider's error into its own.
const DEEPEST: usize = 3;

/// An error, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    /// For people.
    pub(super) message: String,
    /// The status it names itself.
    pub(super) status: Option<u16>,
    /// How long to wait, when a field says so.
    pub(super) retry_after: Option<Duration>,
    /// The same, when the message says so.
    pub(super) said_wait: Option<Duration>,
    /// When to come back, in milliseconds since 1970, when the body says that instead.
    pub(super) reset_at_ms: Option<u64>,
    /// The provider's name for the request.
    pub(super) request_id: Option<String>,
    /// Whether it came as a provider's `error`, and not as a web framework's `detail`.
    pub(super) is_error_object: bool,
    /// Codes, types and reasons, in lower case.
    tags: Vec<String>,
    /// Everything it says, in lower case.
    words: String,
}

impl Complaint {
    /// Reads a body that is a JSON object, or an array that begins with one (Gemini). These shapes are known:
    /// `{"error": {…}}`, `{"error": "text"}` (xAI, Ollama), `{"detail": …}` (Mistral), a flat object (vLLM,
    /// Cohere), and `{"response": {"error": {…}}}` (OpenAI's Responses).
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        Self::of(&serde_json::from_slice(body).ok()?, DEEPEST)
    }

    fn of(body: &Value, depth: usize) -> Option<Self> {
        let body = if body.is_array() { body.get(0)? } else { body };
        let fields = body.as_object()?;
        let error = [fields.get("error"), body.pointer("/response/error")];
        let error = error.into_iter().flatten().find(|error| !error.is_null());
        let (details, is_error_object) = match error {
            Some(error @ Value::Object(_)) => (error, true),
            Some(Value::String(_)) => (body, true),
            _ => (body, false),
        };

        let message = ["message", "error", "detail", "msg"]
            .iter()
            .find_map(|name| details.get(name).filter(|value| !value.is_null()))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
        // OpenRouter's own message is "Provider returned error"; the cause stands here, often as JSON.
        let raw = details.pointer("/metadata/raw").and_then(Value::as_str);
        let inner: Option<Value> = raw.filter(|_| depth > 0).and_then(|raw| serde_json::from_str(raw).ok());
        let inner = inner.and_then(|raw| Self::of(&raw, depth - 1));
        let said = inner.as_ref().map(|inner| inner.message.as_str()).or(raw);
        let message = said.map_or(message.clone(), |said| format!("{message}: {said}"));

        let mut tags = tags(body, details);
        tags.extend(inner.iter().flat_map(|inner| inner.tags.iter().cloned()));
        let inner_wait = inner.and_then(|inner| inner.retry_after);
        let id = |name| body.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            words: message.to_lowercase(),
            status: ["code", "status"].iter().find_map(|name| details.get(name).and_then(status)),
            retry_after: delay::in_body(details).max(inner_wait),
            said_wait: delay::in_text(&message),
            message,
            reset_at_ms: delay::reset_in_body(details),
            // Cohere's errors are flat and have an `id`.
            request_id: id("request_id").or_else(|| id("id").filter(|_| error.is_none())),
            is_error_object,
            tags,
        })
    }

    /// Whether one of its codes is among `tags`.
    pub(super) fn tagged(&self, tags: &[&str]) -> bool {
        self.tags.iter().any(|tag| tags.contains(&tag.as_str()))
    }

    /// Whether it says one of `phrases`.
    pub(super) fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.words.contains(phrase))
    }

    /// Whether it says no more than `phrase`.
    pub(super) fn says_only(&self, phrase: &str) -> bool {
        self.words.trim().trim_end_matches('.') == phrase
    }

    /// Whether one of `phrases` is said of a model: `model` stands before it in the same sentence.
    pub(super) fn says_of_the_model(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| {
            let Some(at) = self.words.find(phrase) else { return false };
            let before = &self.words[..at];
            let sentence = before.rfind(". ").map_or(before, |end| &before[end..]);
            sentence.contains("model")
        })
    }
}

/// Codes, types and reasons wherever providers put them.
fn tags(body: &Value, details: &Value) -> Vec<String> {
    let named = ["type", "code", "status", "reason", "error_type"].iter();
    let named = named.filter_map(|name| details.get(name)?.as_str());
    let reasons = details.get("details").and_then(Value::as_array);
    let reasons = reasons.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str());
    let inner = details.pointer("/innererror/code").and_then(Value::as_str);
    let kind = details.pointer("/metadata/error_type").and_then(Value::as_str);
    // OpenRouter's moderation answers 403 and names what it flagged.
    let flagged = details.pointer("/metadata/flagged_input").map(|_| "content_filter");
    let flat = body.get("error_type").and_then(Value::as_str);
    named.chain(reasons).chain(inner).chain(kind).chain(flagged).chain(flat).map(str::to_lowercase).collect()
}

/// A code that is an HTTP status, as a number or as text.
fn status(code: &Value) -> Option<u16> {
    let code = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}
