//! What a provider's error says, whatever shape it has.

use std::time::Duration;

use serde_json::Value;

use super::delay;

/// An error, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    /// For people.
    pub(super) message: String,
    /// The status it names itself.
    pub(super) status: Option<u16>,
    /// How long to wait, when the body says so.
    pub(super) retry_after: Option<Duration>,
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
    /// `{"error": {…}}`, `{"error": "text"}` (xAI), `{"detail": …}` (Mistral), and a flat object (vLLM).
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let body = if body.is_array() { body.get(0)? } else { &body };
        let fields = body.as_object()?;
        let error = fields.get("error").filter(|error| !error.is_null());
        let (details, is_error_object) = match error {
            Some(error @ Value::Object(_)) => (error, true),
            Some(Value::String(_)) => (body, true),
            _ => (body, false),
        };

        let message = ["message", "error", "detail", "msg"]
            .iter()
            .find_map(|name| details.get(name).filter(|value| !value.is_null()))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
        // OpenRouter's own message is "Provider returned error"; the cause stands here.
        let raw = details.pointer("/metadata/raw").and_then(Value::as_str);
        let message = raw.map_or(message.clone(), |raw| format!("{message}: {raw}"));

        let mut tags: Vec<String> = ["type", "code", "status", "reason"]
            .iter()
            .filter_map(|name| details.get(name)?.as_str())
            .map(str::to_lowercase)
            .collect();
        let extra = details.get("details").and_then(Value::as_array);
        let reasons = extra.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str());
        tags.extend(reasons.map(str::to_lowercase));

        Some(Self {
            words: message.to_lowercase(),
            message,
            status: details.get("code").and_then(status),
            retry_after: extra.into_iter().flatten().filter_map(delay::in_detail).max(),
            request_id: body.get("request_id").and_then(Value::as_str).map(str::to_owned),
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
}

/// A code that is an HTTP status, as a number or as text.
fn status(code: &Value) -> Option<u16> {
    let code = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}
