//! Maps provider errors and connection failures to one of the ten [`ModelErrorCode`](Code)s.
//!
//! Providers agree on little: a rejected key is a 400 at two of them, and a conversation that is too long can often
//! be recognised by the message alone. So the error's codes and phrases are checked before its HTTP status. Each of
//! them was seen in a recording or in a provider's documentation; they are in `data/errors.json`.

mod delay;

use std::sync::LazyLock;
use std::time::Duration;

use houston_domain::model::{ModelError, ModelErrorCode as Code};
use reqwest::header::{CONTENT_ENCODING, HeaderMap, LOCATION};
use serde::Deserialize;
use serde_json::Value;

use crate::scrub::{redacted_address, shortened};

/// How much of an error body is read, in bytes: enough for JSON with a message; a long HTML page is truncated.
pub(crate) const LONGEST_REFUSAL: usize = 64 << 10;

/// Longest error message, in characters.
const LONGEST_MESSAGE: usize = 600;

/// Longest quoted address, in characters.
const LONGEST_ADDRESS: usize = 200;

/// Longest quoted finish reason, in characters.
const LONGEST_REASON: usize = 40;

/// Longest original error text kept for the log, in characters: OpenRouter's nested errors fit.
const LONGEST_CAUSE: usize = 2000;

/// Classifies a response with an error status. `body` may be truncated and need not be JSON.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let reported = ProviderError::read(body).unwrap_or_default();
    let code = code_of(Some(status), &reported);
    let text = String::from_utf8_lossy(body);
    let message = match status {
        300..400 => redirected(status, headers),
        _ if !reported.message.is_empty() => {
            let hint =
                if status == 404 && code == Code::InvalidResponse { "; check the base URL" } else { "" };
            format!("{} (HTTP {status}){hint}", shortened(&reported.message, LONGEST_MESSAGE))
        }
        _ if is_compressed(headers, body) => format!("HTTP {status} with a compressed body"),
        404 => "HTTP 404 without an explanation; check the base URL".to_owned(),
        _ if looks_like_html(body) => format!("HTTP {status} with a web page instead of an answer"),
        _ => format!("HTTP {status}: {}", shortened(text.trim(), 200)),
    };
    ModelError {
        code,
        message,
        retry_after: code.is_retryable().then(|| wait(status, headers, &reported)).flatten(),
        status: Some(status),
        request_id: request_id(headers).or(reported.request_id),
        cause: cause(&text),
        breaker_open: false,
    }
}

/// Redirects are not followed: they would send the key to another host.
fn redirected(status: u16, headers: &HeaderMap) -> String {
    let target =
        headers.get(LOCATION).map(|target| redacted_address(&String::from_utf8_lossy(target.as_bytes())));
    match target {
        Some(target) => format!(
            "HTTP {status}: the server redirects to {}, which is not followed; if that is right, set it as the base URL",
            shortened(&target, LONGEST_ADDRESS)
        ),
        None => format!("HTTP {status}: the server redirects and does not say where to; check the base URL"),
    }
}

/// Whether a body is compressed. Houston does not ask for that.
pub(crate) fn is_compressed(headers: &HeaderMap, body: &[u8]) -> bool {
    let encoding = headers.get(CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
    encoding.is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity"))
        || body.starts_with(GZIP)
}

/// The first bytes of gzip: <https://www.rfc-editor.org/rfc/rfc1952#section-2.3.1>.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The error for an answer that is compressed.
pub(crate) fn compressed() -> ModelError {
    invalid(
        "the answer is compressed, which was not asked for; switch compression off in the server or in the proxy before it",
    )
}

/// How long to wait before a retry: what the error asks for, otherwise the time until the exhausted rate limit
/// resets.
fn wait(status: u16, headers: &HeaderMap, reported: &ProviderError) -> Option<Duration> {
    let requested = delay::in_headers(headers).max(reported.retry_after);
    // Rate limits are reported with every response: they are a reason to wait only if one is exhausted.
    let reset = || {
        let until = reported.reset_at_ms.and_then(|moment| delay::until_moment(headers, moment));
        (status == 429).then(|| until.or_else(|| delay::until_reset(headers))).flatten()
    };
    requested.or(reported.wait_in_message).or_else(reset)
}

/// Classifies an error inside an answer that started successfully. The HTTP status was a success, so the status is
/// the one the error itself contains, if any.
pub(crate) fn in_stream(data: &str) -> ModelError {
    let Some(reported) = ProviderError::read(data.as_bytes()).or_else(|| ProviderError::plain(data)) else {
        let error = invalid("the provider reported an error in an unknown format");
        return ModelError { cause: cause(data), ..error };
    };
    let code = match code_of(reported.status, &reported) {
        // Plain text without codes is not enough to blame the request.
        Code::Unknown if reported.is_plain => Code::InvalidResponse,
        code => code,
    };
    ModelError {
        code,
        message: shortened(&reported.message, LONGEST_MESSAGE),
        retry_after: reported.retry_after.or(reported.wait_in_message).filter(|_| code.is_retryable()),
        status: reported.status,
        request_id: reported.request_id,
        cause: cause(data),
        breaker_open: false,
    }
}

/// Parses the error that `json` reports, if it is an error: `{"error": …}`, an array that starts with one, or a flat
/// error that has a message and no part of an answer.
pub(crate) fn reported(json: &str) -> Option<ModelError> {
    ProviderError::read(json.as_bytes()).filter(|reported| reported.is_error).map(|_| in_stream(json))
}

/// The error for `json` that a decoder cannot read: the provider's own error if it contains one, otherwise
/// `INVALID_RESPONSE`.
pub(crate) fn unreadable(json: &str, why: &serde_json::Error) -> ModelError {
    reported(json).unwrap_or_else(|| {
        let error = invalid(format!("part of the answer cannot be parsed: {why}"));
        ModelError { cause: cause(json), ..error }
    })
}

/// The error for a finish `reason` that means the answer is incomplete.
pub(crate) fn broken_off(reason: &str) -> ModelError {
    let reason = shortened(reason, LONGEST_REASON);
    ModelError::new(Code::NetworkError, format!("the provider broke off its answer ({reason})"))
}

/// The error for a finish `reason` that the protocol does not define.
pub(crate) fn unknown_end(reason: &str) -> ModelError {
    let reason = shortened(reason, LONGEST_REASON);
    invalid(format!("the answer ended with `{reason}`, an unknown finish reason; it may be incomplete"))
}

/// The original error text, for the log.
fn cause(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    (!text.is_empty()).then(|| shortened(text, LONGEST_CAUSE).into())
}

/// The error for a response that is not a valid answer.
pub(crate) fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::new(Code::InvalidResponse, message)
}

/// The error for a stream that ended before the provider marked the answer as complete.
pub(crate) fn cut_off() -> ModelError {
    ModelError::new(Code::NetworkError, "the answer ended before it was complete")
}

/// Classifies a failure of the connection.
pub(crate) fn transport(error: reqwest::Error) -> ModelError {
    let error = error.without_url();
    let (code, what) = if error.is_timeout() {
        (Code::Timeout, "timed out")
    } else if error.is_connect() {
        (Code::NetworkError, "could not connect")
    } else if error.is_builder() {
        (Code::ProviderNotConfigured, "the request could not be built")
    } else {
        (Code::NetworkError, "the connection broke")
    };
    // The innermost cause is the most helpful one, e.g. "connection refused".
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    ModelError::new(code, format!("{what}: {}", shortened(&innermost.to_string(), 200)))
}

/// The provider's id of the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let value = FILE.request_ids.iter().find_map(|name| headers.get(name))?.to_str().ok()?;
    Some(shortened(value, 128))
}

/// Whether a body starts like a web page.
pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// Chooses the error code. `status` is the HTTP status, or the status contained in the error.
fn code_of(status: Option<u16>, error: &ProviderError) -> Code {
    let client_fault = status.is_none_or(|status| matches!(status, 400 | 404 | 413 | 422));
    let refused = status.is_some_and(|status| (400..=428).contains(&status));
    let marks = marks();

    if too_long(status, client_fault, error) {
        return Code::ContextLengthExceeded;
    }
    if status == Some(402) || error.has(&marks.out_of_credit) || error.has(&marks.filtered) {
        return Code::Unknown;
    }
    if matches!(status, Some(401 | 403))
        || error.tagged(&marks.bad_key)
        || (client_fault && error.mentions(&marks.bad_key))
    {
        return Code::AuthenticationError;
    }
    if error.tags.iter().any(|tag| tag == "tool_use_failed") {
        return Code::InvalidResponse;
    }
    // The server's setup or the request must be changed: a retry fails the same way.
    if error.mentions(&marks.setup) {
        return Code::Unknown;
    }
    if no_model(status, client_fault, error) {
        return Code::ModelNotFound;
    }
    if matches!(status, Some(429 | 498 | 529))
        || error.tagged(&marks.too_much)
        || (!refused && error.words.contains("overloaded"))
    {
        return Code::RateLimited;
    }
    by_status(status, error)
}

fn too_long(status: Option<u16>, client_fault: bool, error: &ProviderError) -> bool {
    let mark = &marks().too_long;
    // A 429 may mention tokens, too: there only an error code counts. A 500 counts with llama.cpp's own wording.
    status == Some(413)
        || error.tagged(mark)
        || (client_fault && error.mentions(mark))
        || (status == Some(500) && error.words.contains("is too large to process"))
}

fn no_model(status: Option<u16>, client_fault: bool, error: &ProviderError) -> bool {
    let Marks { no_model, missing, not_the_model, no_address, .. } = marks();
    let is_another =
        error.mentions(not_the_model) || error.mentions(no_address) || error.is_exactly("not found");
    if client_fault && is_another {
        return false;
    }
    let no_such_model = error.mentions(no_model) || error.mentions_after_model(missing);
    error.tagged(no_model)
        || (client_fault && no_such_model)
        // A 404 whose error does not mention a model is due to the address.
        || (status == Some(404) && error.is_error_object)
}

/// Chooses the error code by status, when no code or phrase decided.
fn by_status(status: Option<u16>, error: &ProviderError) -> Code {
    let marks = marks();
    match status {
        Some(404) if error.mentions(&marks.not_the_model) => Code::Unknown,
        Some(404 | 405) => Code::InvalidResponse,
        Some(408 | 504 | 522 | 524) => Code::Timeout,
        // Not implemented: a retry fails the same way.
        Some(501 | 505) => Code::Unknown,
        Some(499 | 500..) => Code::NetworkError,
        Some(200..400) => Code::InvalidResponse,
        None if error.tagged(&marks.too_slow) => Code::Timeout,
        None if error.has(&marks.broken) => Code::NetworkError,
        _ => Code::Unknown,
    }
}

/// Deepest nesting of errors. OpenRouter wraps the errors of providers into its own.
const DEEPEST: usize = 3;

/// A parsed error body, e.g. `{"error": {"type": "rate_limit_error", "message": "Please try again in 20s."}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ProviderError {
    /// The error message.
    message: String,
    /// The HTTP status contained in the error.
    status: Option<u16>,
    /// The wait given in a field.
    retry_after: Option<Duration>,
    /// The wait given in the message text.
    wait_in_message: Option<Duration>,
    /// When the exhausted limit resets, if the body contains that: milliseconds since 1970.
    reset_at_ms: Option<u64>,
    /// The provider's id of the request.
    request_id: Option<String>,
    /// Whether it is a provider's `error` object, not the `detail` of a web framework.
    is_error_object: bool,
    /// Whether it is certainly an error: it has an `error`, or a string as its message.
    is_error: bool,
    /// Whether the body is plain text.
    is_plain: bool,
    /// Codes, types and reasons, in lower case.
    tags: Vec<String>,
    /// The message in lower case.
    words: String,
}

impl ProviderError {
    /// Parses a body that is a JSON object, or an array that starts with one (Gemini). Supported shapes: `{"error":
    /// {…}}`, `{"error": "text"}` (xAI, Ollama), `{"detail": …}` (Mistral), a flat object (vLLM, Cohere), `{"errors":
    /// [{…}]}` (Cloudflare), and `{"response": {"error": {…}}}` (OpenAI Responses).
    fn read(body: &[u8]) -> Option<Self> {
        Self::of(&serde_json::from_slice(body).ok()?, DEEPEST)
    }

    /// Parses a plain-text error; `None` for JSON, a web page or a blank text.
    fn plain(text: &str) -> Option<Self> {
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

    /// Whether it has one of the codes of `mark`.
    fn tagged(&self, mark: &Mark) -> bool {
        self.tags.iter().any(|tag| mark.tags.contains(tag))
    }

    /// Whether its message contains one of the phrases of `mark`.
    fn mentions(&self, mark: &Mark) -> bool {
        mark.phrases.iter().any(|phrase| self.words.contains(phrase.as_str()))
    }

    /// Whether it has one of the codes or of the phrases of `mark`.
    fn has(&self, mark: &Mark) -> bool {
        self.tagged(mark) || self.mentions(mark)
    }

    /// Whether its message is `phrase` and nothing else.
    fn is_exactly(&self, phrase: &str) -> bool {
        self.words.trim().trim_end_matches('.') == phrase
    }

    /// Whether the message contains one of the phrases of `mark` after the word `model` in the same sentence.
    fn mentions_after_model(&self, mark: &Mark) -> bool {
        mark.phrases.iter().any(|phrase| {
            let Some(at) = self.words.find(phrase.as_str()) else { return false };
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

/// `data/errors.json`: what errors are classified by, in lower case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Headers with a request id: those of providers before those of proxies and gateways.
    request_ids: Vec<String>,
    marks: Marks,
}

/// How each kind of error is recognised.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marks {
    too_long: Mark,
    out_of_credit: Mark,
    filtered: Mark,
    bad_key: Mark,
    setup: Mark,
    no_model: Mark,
    missing: Mark,
    not_the_model: Mark,
    no_address: Mark,
    too_much: Mark,
    too_slow: Mark,
    broken: Mark,
    /// What says that a field of the request is not accepted.
    pub(crate) refusing: Mark,
    /// What names the schema of an answer.
    pub(crate) schema: Mark,
}

/// Codes, which are compared as a whole, and phrases, which are searched for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mark {
    tags: Vec<String>,
    pub(crate) phrases: Vec<String>,
    /// For people who read the table.
    why: String,
}

static FILE: LazyLock<File> = LazyLock::new(|| crate::of_data(include_str!("../data/errors.json")));

/// The marks of all kinds of errors.
pub(crate) fn marks() -> &'static Marks {
    &FILE.marks
}

#[cfg(test)]
mod tests;
