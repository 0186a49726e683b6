//! Maps provider errors and connection failures to one of the ten [`ModelErrorCode`](Code)s.
//!
//! Providers agree on little: a rejected key is a 400 at two of them, and a conversation that is too long can often
//! be recognised by the message alone. So the error's codes and phrases are checked before its HTTP status. Each of
//! them was seen in a recording or in a provider's documentation.

mod delay;
mod provider_error;
mod words;

use std::time::Duration;

use houston_domain::model::{ModelError, ModelErrorCode as Code};
use reqwest::header::{CONTENT_ENCODING, HeaderMap, LOCATION};

use self::provider_error::ProviderError;
use self::words as w;
use crate::scrub::redacted_address;
use crate::shorten::shortened;

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
    let reported_error = ProviderError::read(body);
    let code = code_of(Some(status), reported_error.as_ref());
    let text = String::from_utf8_lossy(body);
    let message = match &reported_error {
        _ if (300..400).contains(&status) => redirected(status, headers),
        Some(reported_error) => {
            let hint =
                if status == 404 && code == Code::InvalidResponse { "; check the base URL" } else { "" };
            format!("{} (HTTP {status}){hint}", shortened(&reported_error.message, LONGEST_MESSAGE))
        }
        None if is_compressed(headers, body) => format!("HTTP {status} with a compressed body"),
        None if status == 404 => "HTTP 404 without an explanation; check the base URL".to_owned(),
        None if looks_like_html(body) => format!("HTTP {status} with a web page instead of an answer"),
        None => format!("HTTP {status}: {}", shortened(text.trim(), 200)),
    };
    ModelError {
        code,
        message,
        retry_after: code.is_retryable().then(|| wait(status, headers, reported_error.as_ref())).flatten(),
        status: Some(status),
        request_id: request_id(headers)
            .or_else(|| reported_error.and_then(|reported_error| reported_error.request_id)),
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
fn wait(status: u16, headers: &HeaderMap, reported_error: Option<&ProviderError>) -> Option<Duration> {
    let requested =
        delay::in_headers(headers).max(reported_error.and_then(|reported_error| reported_error.retry_after));
    // Rate limits are reported with every response: they are a reason to wait only if one is exhausted.
    let reset = || {
        let moment = reported_error.and_then(|reported_error| reported_error.reset_at_ms);
        let until = moment.and_then(|moment| delay::until_moment(headers, moment));
        (status == 429).then(|| until.or_else(|| delay::until_reset(headers))).flatten()
    };
    requested
        .or_else(|| reported_error.and_then(|reported_error| reported_error.wait_in_message))
        .or_else(reset)
}

/// Classifies an error inside an answer that started successfully. The HTTP status was a success, so the status is
/// the one the error itself contains, if any.
pub(crate) fn in_stream(data: &str) -> ModelError {
    let reported_error = ProviderError::read(data.as_bytes()).or_else(|| ProviderError::plain(data));
    let Some(reported_error) = reported_error else {
        let error = invalid("the provider reported an error in an unknown format");
        return ModelError { cause: cause(data), ..error };
    };
    let code = match code_of(reported_error.status, Some(&reported_error)) {
        // Plain text without codes is not enough to blame the request.
        Code::Unknown if reported_error.is_plain => Code::InvalidResponse,
        code => code,
    };
    ModelError {
        code,
        message: shortened(&reported_error.message, LONGEST_MESSAGE),
        retry_after: reported_error
            .retry_after
            .or(reported_error.wait_in_message)
            .filter(|_| code.is_retryable()),
        status: reported_error.status,
        request_id: reported_error.request_id,
        cause: cause(data),
        breaker_open: false,
    }
}

/// Parses the error that `json` reports, if it is an error: `{"error": …}`, an array that starts with one, or a flat
/// error that has a message and no part of an answer.
pub(crate) fn reported(json: &str) -> Option<ModelError> {
    ProviderError::read(json.as_bytes())
        .filter(|reported_error| reported_error.is_error)
        .map(|_| in_stream(json))
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
    let (code, what) = match (error.is_timeout(), error.is_connect()) {
        (true, _) => (Code::Timeout, "timed out"),
        (false, true) => (Code::NetworkError, "could not connect"),
        (false, false) if error.is_builder() => {
            (Code::ProviderNotConfigured, "the request could not be built")
        }
        (false, false) => (Code::NetworkError, "the connection broke"),
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
    let value = w::REQUEST_IDS.iter().find_map(|name| headers.get(*name))?.to_str().ok()?;
    Some(shortened(value, 128))
}

/// Whether a body starts like a web page.
pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// Chooses the error code. `status` is the HTTP status, or the status contained in the error.
fn code_of(status: Option<u16>, reported_error: Option<&ProviderError>) -> Code {
    let tagged = |tags: &[&str]| reported_error.is_some_and(|reported_error| reported_error.tagged(tags));
    let mentions =
        |phrases: &[&str]| reported_error.is_some_and(|reported_error| reported_error.mentions(phrases));
    let client_fault = status.is_none_or(|status| matches!(status, 400 | 404 | 413 | 422));
    let refused = status.is_some_and(|status| (400..=428).contains(&status));

    if too_long(status, client_fault, reported_error) {
        return Code::ContextLengthExceeded;
    }
    if tagged(w::OUT_OF_CREDIT_TAGS) || status == Some(402) || mentions(w::OUT_OF_CREDIT_PHRASES) {
        return Code::Unknown;
    }
    // The content of the prompt was rejected; another key would not help.
    if tagged(w::FILTERED_TAGS) || mentions(w::FILTERED_PHRASES) {
        return Code::Unknown;
    }
    if matches!(status, Some(401 | 403))
        || tagged(w::BAD_KEY_TAGS)
        || (client_fault && mentions(w::BAD_KEY_PHRASES))
    {
        return Code::AuthenticationError;
    }
    if tagged(&["tool_use_failed"]) {
        return Code::InvalidResponse;
    }
    // The server's setup or the request must be changed: a retry fails the same way.
    if mentions(w::SETUP_PHRASES) {
        return Code::Unknown;
    }
    if no_model(status, client_fault, reported_error) {
        return Code::ModelNotFound;
    }
    if matches!(status, Some(429 | 498 | 529))
        || tagged(w::TOO_MUCH_TAGS)
        || (!refused && mentions(&["overloaded"]))
    {
        return Code::RateLimited;
    }
    by_status(status, reported_error)
}

fn too_long(status: Option<u16>, client_fault: bool, reported_error: Option<&ProviderError>) -> bool {
    if status == Some(413) {
        return true;
    }
    let Some(reported_error) = reported_error else { return false };
    // A 429 may mention tokens, too: there only an error code counts. A 500 counts with llama.cpp's own wording.
    reported_error.tagged(w::TOO_LONG_TAGS)
        || (client_fault && reported_error.mentions(w::TOO_LONG_PHRASES))
        || (status == Some(500) && reported_error.mentions(&["is too large to process"]))
}

fn no_model(status: Option<u16>, client_fault: bool, reported_error: Option<&ProviderError>) -> bool {
    let Some(reported_error) = reported_error else { return false };
    if client_fault && reported_error.mentions(w::NOT_THE_MODEL_PHRASES) {
        return false;
    }
    if client_fault
        && (reported_error.mentions(w::NO_ADDRESS_PHRASES) || reported_error.is_exactly("not found"))
    {
        return false;
    }
    let no_such_model = reported_error.mentions(w::NO_MODEL_PHRASES)
        || reported_error.mentions_after_model(w::MISSING_PHRASES);
    reported_error.tagged(w::NO_MODEL_TAGS)
        || (client_fault && no_such_model)
        // A 404 whose error does not mention a model is due to the address.
        || (status == Some(404) && reported_error.is_error_object)
}

/// Chooses the error code by status, when no code or phrase decided.
fn by_status(status: Option<u16>, reported_error: Option<&ProviderError>) -> Code {
    let tagged = |tags: &[&str]| reported_error.is_some_and(|reported_error| reported_error.tagged(tags));
    let mentions =
        |phrases: &[&str]| reported_error.is_some_and(|reported_error| reported_error.mentions(phrases));
    match status {
        Some(404) if mentions(w::NOT_THE_MODEL_PHRASES) => Code::Unknown,
        Some(404 | 405) => Code::InvalidResponse,
        Some(408 | 504 | 522 | 524) => Code::Timeout,
        // Not implemented: a retry fails the same way.
        Some(501 | 505) => Code::Unknown,
        Some(499 | 500..) => Code::NetworkError,
        Some(200..400) => Code::InvalidResponse,
        None if tagged(w::TOO_SLOW_TAGS) => Code::Timeout,
        None if tagged(w::BROKEN_TAGS) || mentions(w::BROKEN_PHRASES) => Code::NetworkError,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests;
