//! From what a provider said, or failed to say, to one of the ten codes.
//!
//! Providers agree on little: a bad key is 400 at two of them, a conversation that is too long is known by its
//! text alone at most. So the words decide before the status does, and each word here was seen in a recording
//! or in a provider's documentation.

mod complaint;
mod delay;
mod words;

use std::time::Duration;

use houston_domain::model::{ModelError, ModelErrorCode as Code};
use reqwest::header::HeaderMap;

use self::complaint::Complaint;
use self::words as w;
use crate::shorten::shortened;

/// Most of a refusal that is read, in bytes: a sentence and its JSON fit, a page of HTML need not.
pub(crate) const LONGEST_REFUSAL: usize = 64 << 10;

/// Longest message shown, in characters.
const LONGEST_MESSAGE: usize = 600;

/// Longest reason of an end that is shown, in characters.
const LONGEST_REASON: usize = 40;

/// Longest cause kept for the log, in characters: OpenRouter's nested errors fit.
const LONGEST_CAUSE: usize = 2000;

/// Classifies an answer that is no success. `body` may be cut off, and may be anything.
pub(crate) fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let complaint = Complaint::read(body);
    let code = code_of(Some(status), complaint.as_ref());
    let text = String::from_utf8_lossy(body);
    let message = match &complaint {
        Some(complaint) => {
            let hint =
                if status == 404 && code == Code::InvalidResponse { "; is the base URL right?" } else { "" };
            format!("{} (HTTP {status}){hint}", shortened(&complaint.message, LONGEST_MESSAGE))
        }
        None if status == 404 => "HTTP 404 without an explanation: is the base URL right?".to_owned(),
        None if looks_like_html(body) => format!("HTTP {status} with a web page instead of an answer"),
        None => format!("HTTP {status}: {}", shortened(text.trim(), 200)),
    };
    ModelError {
        code,
        message,
        retry_after: code.is_retryable().then(|| wait(status, headers, complaint.as_ref())).flatten(),
        status: Some(status),
        request_id: request_id(headers).or_else(|| complaint.and_then(|complaint| complaint.request_id)),
        cause: cause(&text),
        breaker_open: false,
    }
}

/// How long the provider asks to wait: in so many words, or else until the limit ends that was reached.
fn wait(status: u16, headers: &HeaderMap, complaint: Option<&Complaint>) -> Option<Duration> {
    let asked = delay::in_headers(headers).max(complaint.and_then(|complaint| complaint.retry_after));
    // Limits are told beside every answer: only one that was reached is a reason to wait.
    let reset = || {
        let moment = complaint.and_then(|complaint| complaint.reset_at_ms);
        let told = moment.and_then(|moment| delay::until_moment(headers, moment));
        (status == 429).then(|| told.or_else(|| delay::until_reset(headers))).flatten()
    };
    asked.or_else(|| complaint.and_then(|complaint| complaint.said_wait)).or_else(reset)
}

/// Classifies an error that came inside an answer which had begun well. The HTTP status was a success then, so
/// the status is the one the error names itself, if any.
pub(crate) fn in_stream(data: &str) -> ModelError {
    let complaint = Complaint::read(data.as_bytes()).or_else(|| Complaint::plain(data));
    let Some(complaint) = complaint else {
        let error = invalid("the provider reported an error in a form nobody knows");
        return ModelError { cause: cause(data), ..error };
    };
    let code = match code_of(complaint.status, Some(&complaint)) {
        // Words without any form are no reason to say that the request was at fault.
        Code::Unknown if complaint.is_plain => Code::InvalidResponse,
        code => code,
    };
    ModelError {
        code,
        message: shortened(&complaint.message, LONGEST_MESSAGE),
        retry_after: complaint.retry_after.or(complaint.said_wait).filter(|_| code.is_retryable()),
        status: complaint.status,
        request_id: complaint.request_id,
        cause: cause(data),
        breaker_open: false,
    }
}

/// The error that `json` reports, if it reports one: `{"error": …}`, a list that begins with it, or a flat error with
/// a message and nothing of an answer.
pub(crate) fn reported(json: &str) -> Option<ModelError> {
    Complaint::read(json.as_bytes()).filter(|complaint| complaint.is_error).map(|_| in_stream(json))
}

/// `json` is not what a decoder expects: the provider's error, if it is one, or else `INVALID_RESPONSE`.
pub(crate) fn unreadable(json: &str, why: &serde_json::Error) -> ModelError {
    reported(json).unwrap_or_else(|| {
        let error = invalid(format!("a part of the answer cannot be read: {why}"));
        ModelError { cause: cause(json), ..error }
    })
}

/// The provider ended its answer with a `reason` that means that it is not complete.
pub(crate) fn broken_off(reason: &str) -> ModelError {
    let reason = shortened(reason, LONGEST_REASON);
    ModelError::new(Code::NetworkError, format!("the provider broke off its answer ({reason})"))
}

/// The provider ended its answer with a `reason` that its protocol does not have.
pub(crate) fn unknown_end(reason: &str) -> ModelError {
    let reason = shortened(reason, LONGEST_REASON);
    invalid(format!("the answer ended with `{reason}`, which is no known reason: it may not be complete"))
}

/// What was said, for the log.
fn cause(said: &str) -> Option<Box<str>> {
    let said = said.trim();
    (!said.is_empty()).then(|| shortened(said, LONGEST_CAUSE).into())
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
    let value = w::REQUEST_IDS.iter().find_map(|name| headers.get(*name))?.to_str().ok()?;
    Some(shortened(value, 128))
}

/// Whether bytes begin like a web page.
pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// The decision. `status` is the HTTP status, or the one an error names.
fn code_of(status: Option<u16>, complaint: Option<&Complaint>) -> Code {
    let tagged = |tags: &[&str]| complaint.is_some_and(|complaint| complaint.tagged(tags));
    let says = |phrases: &[&str]| complaint.is_some_and(|complaint| complaint.says(phrases));
    let client_fault = status.is_none_or(|status| matches!(status, 400 | 404 | 413 | 422));
    let refused = status.is_some_and(|status| (400..=428).contains(&status));

    if too_long(status, client_fault, complaint) {
        return Code::ContextLengthExceeded;
    }
    if tagged(w::OUT_OF_CREDIT_TAGS) || status == Some(402) || says(w::OUT_OF_CREDIT_PHRASES) {
        return Code::Unknown;
    }
    // The words of a prompt were refused, and no key would help.
    if tagged(w::FILTERED_TAGS) || says(w::FILTERED_PHRASES) {
        return Code::Unknown;
    }
    if matches!(status, Some(401 | 403))
        || tagged(w::BAD_KEY_TAGS)
        || (client_fault && says(w::BAD_KEY_PHRASES))
    {
        return Code::AuthenticationError;
    }
    if tagged(&["tool_use_failed"]) {
        return Code::InvalidResponse;
    }
    // The server, or what was asked of it, must be changed: a second attempt fails alike.
    if says(w::SETUP_PHRASES) {
        return Code::Unknown;
    }
    if no_model(status, client_fault, complaint) {
        return Code::ModelNotFound;
    }
    if matches!(status, Some(429 | 498 | 529))
        || tagged(w::TOO_MUCH_TAGS)
        || (!refused && says(&["overloaded"]))
    {
        return Code::RateLimited;
    }
    by_status(status, complaint)
}

fn too_long(status: Option<u16>, client_fault: bool, complaint: Option<&Complaint>) -> bool {
    if status == Some(413) {
        return true;
    }
    let Some(complaint) = complaint else { return false };
    // A 429 may mention tokens too; only a code convinces there. A 500 is judged by llama.cpp's own words.
    complaint.tagged(w::TOO_LONG_TAGS)
        || (client_fault && complaint.says(w::TOO_LONG_PHRASES))
        || (status == Some(500) && complaint.says(&["is too large to process"]))
}

fn no_model(status: Option<u16>, client_fault: bool, complaint: Option<&Complaint>) -> bool {
    let Some(complaint) = complaint else { return false };
    if client_fault && complaint.says(w::NOT_THE_MODEL_PHRASES) {
        return false;
    }
    if client_fault && (complaint.says(w::NO_ADDRESS_PHRASES) || complaint.says_only("not found")) {
        return false;
    }
    let no_such_model =
        complaint.says(w::NO_MODEL_PHRASES) || complaint.says_of_the_model(w::MISSING_PHRASES);
    complaint.tagged(w::NO_MODEL_TAGS)
        || (client_fault && no_such_model)
        // Without a word about a model it is the address that was not found.
        || (status == Some(404) && complaint.is_error_object)
}

/// What no word told.
fn by_status(status: Option<u16>, complaint: Option<&Complaint>) -> Code {
    let tagged = |tags: &[&str]| complaint.is_some_and(|complaint| complaint.tagged(tags));
    let says = |phrases: &[&str]| complaint.is_some_and(|complaint| complaint.says(phrases));
    match status {
        Some(404) if says(w::NOT_THE_MODEL_PHRASES) => Code::Unknown,
        Some(404 | 405) => Code::InvalidResponse,
        Some(408 | 504 | 522 | 524) => Code::Timeout,
        // Not implemented: it will not be the next time either.
        Some(501 | 505) => Code::Unknown,
        Some(499 | 500..) => Code::NetworkError,
        Some(200..400) => Code::InvalidResponse,
        None if tagged(w::TOO_SLOW_TAGS) => Code::Timeout,
        None if tagged(w::BROKEN_TAGS) || says(w::BROKEN_PHRASES) => Code::NetworkError,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests;
