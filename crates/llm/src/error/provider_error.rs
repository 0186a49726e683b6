//! Parses the error bodies of providers.

use std::time::Duration;

use serde_json::Value;

use super::delay;

/// Deepest nesting of errors. OpenRouter wraps the errors of providers into its own.
const DEEPEST: usize = 3;

/// A parsed error body, e.g. `{"error": {"type": "rate_limit_error", "message": "Please try again in 20s."}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderError {
    /// The error message.
    pub(super) message: String,
    /// The HTTP status contained in the error.
    pub(super) status: Option<u16>,
    /// The wait given in a field.
    pub(super) retry_after: Option<Duration>,
    /// The wait given in the message text.
    pub(super) wait_in_message: Option<Duration>,
    /// When the exhausted limit resets, if the body contains that: milliseconds since 1970.
    pub(super) reset_at_ms: Option<u64>,
    /// The provider's id of the request.
    pub(super) request_id: Option<String>,
    /// Whether it is a provider's `error` object, not the `detail` of a web framework.
    pub(super) is_error_object: bool,
    /// Whether it is certainly an error: it has an `error`, or a string as its message.
    pub(super) is_error: bool,
    /// Whether the body is plain text.
    pub(super) is_plain: bool,
    /// Codes, types and reasons, in lower case.
    tags: Vec<String>,
    /// The message in lower case.
    words: String,
}

impl ProviderError {
    /// Parses a body that is a JSON object, or an array that starts with one (Gemini). Supported shapes: `{"error":
    /// {…}}`, `{"error": "text"}` (xAI, Ollama), `{"detail": …}` (Mistral), a flat object (vLLM, Cohere), `{"errors":
    /// [{…}]}` (Cloudflare), and `{"response": {"error": {…}}}` (OpenAI Responses).
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        Self::of(&serde_json::from_slice(body).ok()?, DEEPEST)
    }

    /// Parses a plain-text error; `None` for JSON, a web page or a blank text.
    pub(super) fn plain(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['{', '[', '<']) {
            return None;
        }
        let message = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let error = Self::of(&serde_json::json!({ "error": message }), 0)?;
        Some(Self { is_plain: true, ..error })
    }

    fn of(body: &Value, depth: usize) -> Option<Self> {
        let body = if body.is_array() { body.get(0)? } else { body };
        let fields = body.as_object()?;
        let error = [fields.get("error"), body.pointer("/response/error"), body.pointer("/errors/0")];
        let error = error.into_iter().flatten().find(|error| is_error_value(error));
        let (details, is_error_object) = match error {
            Some(error @ Value::Object(_)) => (error, true),
            Some(Value::String(_)) => (body, true),
            _ => (body, false),
        };

        let message = ["message", "Message", "error", "detail", "msg"]
            .iter()
            .find_map(|name| details.get(name).filter(|value| is_error_value(value)))
            .or_else(|| error.filter(|_| is_error_object));
        let is_error = error.is_some() || message.is_some_and(Value::is_string);
        let message = message.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
        // OpenRouter's own message is "Provider returned error"; this field has the cause, often as JSON.
        let raw = details.pointer("/metadata/raw").and_then(Value::as_str);
        let inner: Option<Value> = raw.filter(|_| depth > 0).and_then(|raw| serde_json::from_str(raw).ok());
        let inner = inner.and_then(|raw| Self::of(&raw, depth - 1));
        let detail = inner.as_ref().map(|inner| inner.message.as_str()).or(raw);
        let message = detail.map_or(message.clone(), |detail| format!("{message}: {detail}"));

        let mut tags = tags(body, details);
        tags.extend(inner.iter().flat_map(|inner| inner.tags.iter().cloned()));
        let inner_wait = inner.and_then(|inner| inner.retry_after);
        let id = |name| body.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            words: message.to_lowercase(),
            status: ["code", "status"].iter().find_map(|name| details.get(name).and_then(status)),
            retry_after: delay::in_body(details).max(inner_wait),
            wait_in_message: delay::in_text(&message),
            message,
            reset_at_ms: delay::reset_in_body(details),
            // Cohere's errors are flat and have an `id`.
            request_id: id("request_id").or_else(|| id("id").filter(|_| error.is_none())),
            is_error_object,
            is_error,
            is_plain: false,
            tags,
        })
    }

    /// Whether one of its codes is in `tags`.
    pub(super) fn tagged(&self, tags: &[&str]) -> bool {
        self.tags.iter().any(|tag| tags.contains(&tag.as_str()))
    }

    /// Whether its message contains one of `phrases`.
    pub(super) fn mentions(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.words.contains(phrase))
    }

    /// Whether its message is `phrase` and nothing else.
    pub(super) fn is_exactly(&self, phrase: &str) -> bool {
        self.words.trim().trim_end_matches('.') == phrase
    }

    /// Whether the message contains one of `phrases` after the word `model` in the same sentence.
    pub(super) fn mentions_after_model(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| {
            let Some(at) = self.words.find(phrase) else { return false };
            let before = &self.words[..at];
            let sentence = before.rfind(". ").map_or(before, |end| &before[end..]);
            sentence.contains("model")
        })
    }
}

/// Whether a value reports an error: some servers send `"error": null`, `""`, `{}` or `false` with every answer.
fn is_error_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// Collects codes, types and reasons from all the fields in which providers put them.
fn tags(body: &Value, details: &Value) -> Vec<String> {
    let named = ["type", "code", "status", "reason", "error_type"].iter();
    let named = named.filter_map(|name| details.get(name)?.as_str());
    let reasons = details.get("details").and_then(Value::as_array);
    let reasons = reasons.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str());
    let inner = details.pointer("/innererror/code").and_then(Value::as_str);
    let kind = details.pointer("/metadata/error_type").and_then(Value::as_str);
    // OpenRouter's moderation answers 403 and includes the flagged input.
    let flagged = details.pointer("/metadata/flagged_input").map(|_| "content_filter");
    let flat = body.get("error_type").and_then(Value::as_str);
    named.chain(reasons).chain(inner).chain(kind).chain(flagged).chain(flat).map(str::to_lowercase).collect()
}

/// An HTTP status in a `code` or `status` field, as a number or a string.
fn status(code: &Value) -> Option<u16> {
    let code = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}
