//! From what a provider said, or failed to say, to one of the ten codes.
//!
//! Providers agree on little: a bad key is 400 at two of them, a conversation that is too long is known by its
//! text alone at most. So the words decide before the status does, and each word here was seen in a recording
//! or in a provider's documentation.

mod complaint;
mod delay;

use houston_domain::model::{ModelError, ModelErrorCode as Code};
use reqwest::header::HeaderMap;

use self::complaint::Complaint;
use crate::turn::shortened;

/// Most of a refusal that is read, in bytes: a sentence and its JSON fit, a page of HTML need not.
pub(crate) const LONGEST_REFUSAL: usize = 64 << 10;

/// Longest message shown, in characters.
const LONGEST_MESSAGE: usize = 600;

/// Classifies an answer that is no success. `body` may be cut off, and may be anything.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let complaint = Complaint::read(body);
    let code = code_of(Some(status), complaint.as_ref());
    let message = match &complaint {
        Some(complaint) => format!("{} (HTTP {status})", shortened(&complaint.message, LONGEST_MESSAGE)),
        None if status == 404 => "HTTP 404 without an explanation: is the base URL right?".to_owned(),
        None if looks_like_html(body) => format!("HTTP {status} with a web page instead of an answer"),
        None => format!("HTTP {status}: {}", shortened(String::from_utf8_lossy(body).trim(), 200)),
    };
    let body_delay = complaint.as_ref().and_then(|complaint| complaint.retry_after);
    ModelError {
        code,
        message,
        retry_after: code.is_retryable().then(|| delay::in_headers(headers).max(body_delay)).flatten(),
        status: Some(status),
        request_id: request_id(headers).or_else(|| complaint.and_then(|complaint| complaint.request_id)),
        breaker_open: false,
    }
}

/// Classifies an error that came inside an answer which had begun well. The HTTP status was a success then, so
/// the status is the one the error names itself, if any.
pub(crate) fn in_stream(data: &str) -> ModelError {
    let Some(complaint) = Complaint::read(data.as_bytes()) else {
        return invalid(format!(
            "the provider reported an error in a form nobody knows: {}",
            shortened(data, 200)
        ));
    };
    let code = code_of(complaint.status, Some(&complaint));
    ModelError {
        code,
        message: shortened(&complaint.message, LONGEST_MESSAGE),
        retry_after: complaint.retry_after.filter(|_| code.is_retryable()),
        status: complaint.status,
        request_id: complaint.request_id,
        breaker_open: false,
    }
}

/// What came is no answer.
pub(crate) fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::new(Code::InvalidResponse, message)
}

/// The stream ended before the provider said that it was complete.
pub(crate) fn cut_off() -> ModelError {
    ModelError::new(Code::NetworkError, "the answer ended before it was complete")
}

/// The connection failed, or broke.
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
    // The reason that helps is the innermost one: "connection refused".
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    ModelError::new(code, format!("{what}: {}", shortened(&innermost.to_string(), 200)))
}

/// The provider's name for an answer.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let names = ["request-id", "x-request-id", "apim-request-id", "x-ms-request-id", "cf-ray"];
    let value = names.iter().find_map(|name| headers.get(*name))?.to_str().ok()?;
    Some(shortened(value, 128))
}

fn looks_like_html(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// The decision. `status` is the HTTP status, or the one an error names.
fn code_of(status: Option<u16>, complaint: Option<&Complaint>) -> Code {
    let tagged = |tags: &[&str]| complaint.is_some_and(|complaint| complaint.tagged(tags));
    let says = |phrases: &[&str]| complaint.is_some_and(|complaint| complaint.says(phrases));
    let client_fault = status.is_none_or(|status| matches!(status, 400 | 404 | 413 | 422));

    // A 429 may mention tokens too; only a code convinces there.
    if tagged(TOO_LONG_TAGS) || status == Some(413) || (client_fault && says(TOO_LONG_PHRASES)) {
        return Code::ContextLengthExceeded;
    }
    if tagged(OUT_OF_CREDIT_TAGS) || status == Some(402) || says(&["credit balance is too low"]) {
        return Code::Unknown;
    }
    if matches!(status, Some(401 | 403)) || tagged(BAD_KEY_TAGS) || (client_fault && says(BAD_KEY_PHRASES)) {
        return Code::AuthenticationError;
    }
    if tagged(&["tool_use_failed"]) {
        return Code::InvalidResponse;
    }
    if tagged(NO_MODEL_TAGS) || (client_fault && says(NO_MODEL_PHRASES)) {
        return Code::ModelNotFound;
    }
    if matches!(status, Some(429 | 529)) || tagged(TOO_MUCH_TAGS) {
        return Code::RateLimited;
    }
    match status {
        // Without a word about a model it is the address that was not found.
        Some(404) => complaint
            .filter(|complaint| complaint.is_error_object)
            .map_or(Code::InvalidResponse, |_| Code::ModelNotFound),
        Some(408 | 504 | 522 | 524) => Code::Timeout,
        Some(500..) => Code::NetworkError,
        Some(200..400) => Code::InvalidResponse,
        None if tagged(&["timeout_error", "deadline_exceeded", "timeout"]) => Code::Timeout,
        None if tagged(&[
            "api_error",
            "server_error",
            "internal_server_error",
            "internal",
            "unavailable",
        ]) =>
        {
            Code::NetworkError
        }
        _ => Code::Unknown,
    }
}

const TOO_LONG_TAGS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "too_many_prompt_tokens",
    "too_many_tokens",
    "model_context_window_exceeded",
    "request_too_large",
    "string_above_max_length",
];
const TOO_LONG_PHRASES: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum context length",
    "maximum prompt length",
    "context length",
    "context window",
    "context size",
    "input token count",
    "too many tokens",
    "total length of all messages",
];
const OUT_OF_CREDIT_TAGS: &[&str] =
    &["insufficient_quota", "insufficient_balance", "billing_error", "billing_not_active"];
const BAD_KEY_TAGS: &[&str] = &[
    "authentication_error",
    "invalid_api_key",
    "api_key_invalid",
    "permission_error",
    "permission_denied",
    "unauthenticated",
    "unauthorized",
];
const BAD_KEY_PHRASES: &[&str] = &[
    "incorrect api key",
    "invalid api key",
    "api key not valid",
    "no auth credentials",
    "invalid x-api-key",
];
const NO_MODEL_TAGS: &[&str] =
    &["model_not_found", "deploymentnotfound", "not_found_error", "invalid_model", "model_not_available"];
const NO_MODEL_PHRASES: &[&str] = &[
    "model not found",
    "is not a valid model",
    "invalid model",
    "unknown model",
    "no such model",
    "supported api model names",
    "does not exist or you do not have access",
];
const TOO_MUCH_TAGS: &[&str] = &[
    "rate_limit_error",
    "rate_limit_exceeded",
    "ratelimitreached",
    "too_many_requests",
    "resource_exhausted",
    "overloaded_error",
    "overloaded",
    "server_overloaded",
    "engine_overloaded",
    "slow_down",
];

#[cfg(test)]
mod tests;
