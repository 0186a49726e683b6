//! `Idempotency-Key`: a repeated request gets the first response again, byte for byte, and creates nothing new. The
//! health monitor deletes keys after a day (`requests.idempotency_key_s`).
//!
//! A key belongs to the caller's user, if it has one: no user's key answers or blocks that of another. Keys of callers without a
//! user are those of the tenant.

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use houston_domain::id::RunId;
use houston_protocol::message::MessageImage;
use houston_store::Error;
use houston_store::idempotency::{Created, IdempotencyKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::caller::Caller;
use crate::error::{ApiError, Result};
use crate::state::Ctx;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const MAX_KEY_CHARS: usize = 255;

/// How often an SDK of OpenAI has sent the same request before. None of them sends keys.
const SDK_RETRY: HeaderName = HeaderName::from_static("x-stainless-retry-count");

/// The idempotency key of a request, with the hash of method, path and body.
#[derive(Debug)]
pub(crate) struct Key {
    key: String,
    request_sha256: [u8; 32],
    /// Of an SDK's request: whether it was sent before. Its key is the beginning of the one that [`Key::of_attempt`] makes.
    sdk_repeats: Option<bool>,
}

impl Key {
    /// The key of a request with this body (in chunks); `None` if the request has no key. The caller is taken from the request, which
    /// was checked before.
    ///
    /// # Errors
    /// [`ApiError::InvalidIdempotencyKey`] when it is empty, too long or not printable ASCII.
    pub(crate) fn from_request<'b>(
        parts: &Parts,
        body: impl IntoIterator<Item = &'b [u8], IntoIter: Clone>,
    ) -> Result<Option<Self>> {
        let Some(value) = parts.headers.get(&IDEMPOTENCY_KEY) else { return Ok(Self::of_sdk(parts, body)) };
        let key = value.to_str().map_err(|_| ApiError::InvalidIdempotencyKey)?.trim();
        // Either a quoted string (RFC 9651), or bare as most clients send it.
        let key = key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(key);
        check(key)?;
        let key = Self { key: key.to_owned(), request_sha256: hash(parts, body), sdk_repeats: None };
        Ok(Some(key.of_caller(parts)))
    }

    fn of_caller(self, parts: &Parts) -> Self {
        match parts.extensions.get::<Caller>().and_then(|caller| caller.user()) {
            Some(user) => self.of_user(&user.to_string()),
            None => self,
        }
    }

    /// The beginning of the key of a request that must not be carried out twice, and whose SDK says whether it repeats it.
    fn of_sdk<'b>(parts: &Parts, body: impl IntoIterator<Item = &'b [u8], IntoIter: Clone>) -> Option<Self> {
        let retries = parts.headers.get(&SDK_RETRY)?;
        if !must_not_repeat(parts.uri.path()) {
            return None;
        }
        let request_sha256 = hash(parts, body);
        let digits: String = request_sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = Self { key: format!("sdk {digits} "), request_sha256, sdk_repeats: Some(retries != "0") };
        Some(key.of_caller(parts))
    }

    /// The whole key of an SDK's request: that of the attempt before, if it repeats one that was accepted, or a new one. Any other
    /// key is whole already.
    pub(crate) async fn of_attempt(self, ctx: &Ctx) -> Result<Self> {
        let Some(repeats) = self.sdk_repeats else { return Ok(self) };
        let mut before = None;
        if repeats {
            for cell in ctx.all_cells() {
                before = before.max(cell.store(ctx.caller).latest_key(&self.key).await?);
            }
        }
        let new = || format!("{}{}", self.key, ctx.state.ids.next::<uuid::Uuid>().simple());
        Ok(Self { key: before.unwrap_or_else(new), request_sha256: self.request_sha256, sdk_repeats: None })
    }

    /// The same key, of this user alone. No key that a client sends has a line break.
    pub(crate) fn of_user(self, user: &str) -> Self {
        Self { key: format!("{user}\n{}", self.key), ..self }
    }

    /// The key of a message that its client calls `id`, within the agentable with this public id.
    ///
    /// # Errors
    /// [`ApiError::InvalidIdempotencyKey`] when the id is empty, too long or not printable ASCII.
    pub(crate) fn of_message(
        agentable: &str,
        id: &str,
        content: &str,
        images: &[MessageImage],
    ) -> Result<Self> {
        let key = format!("ag-ui {agentable} {id}");
        check(id).and(check(&key))?;
        let mut hash = Sha256::new().chain_update(content);
        for MessageImage { data, url } in images {
            for text in [data, url] {
                // No text of a message has this byte.
                hash.update([0xff]);
                hash.update(text.as_deref().unwrap_or_default());
            }
        }
        Ok(Self { key, request_sha256: hash.finalize().into(), sdk_repeats: None })
    }

    /// The key of the message that repeats what a failed run was to answer: it is posted once, however often it is asked for.
    pub(crate) fn of_retry(run: RunId) -> Self {
        let key = format!("retry {run}");
        Self { request_sha256: Sha256::digest(&key).into(), key, sdk_repeats: None }
    }

    pub(crate) fn as_stored(&self) -> IdempotencyKey<'_> {
        IdempotencyKey { key: &self.key, request_sha256: &self.request_sha256 }
    }
}

fn check(key: &str) -> Result<()> {
    let is_printable = key.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let is_valid = !key.is_empty() && key.len() <= MAX_KEY_CHARS && is_printable;
    if is_valid { Ok(()) } else { Err(ApiError::InvalidIdempotencyKey) }
}

/// Whether a `POST` of an SDK of OpenAI to the path would do something twice when it is repeated: it begins a run, or adds items.
fn must_not_repeat(path: &str) -> bool {
    let Some(resource) = path.strip_prefix("/compat/openai/v1/") else { return false };
    let adds_items = resource.starts_with("conversations/") && resource.ends_with("/items");
    ["responses", "chat/completions"].contains(&resource) || adds_items
}

/// The hash of method, path and body.
fn hash<'b>(parts: &Parts, body: impl IntoIterator<Item = &'b [u8], IntoIter: Clone>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [parts.method.as_str().as_bytes(), parts.uri.path().as_bytes()] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let body = body.into_iter();
    hash.update(body.clone().map(<[u8]>::len).sum::<usize>().to_be_bytes());
    body.for_each(|piece| hash.update(piece));
    hash.finalize().into()
}

/// What was created, and whether an earlier request created it.
///
/// # Errors
/// [`ApiError::IdempotencyKeyReused`] when the key was used for another request.
pub(crate) fn unless_key_reused<T>(created: Created<T>) -> Result<(T, bool)> {
    match created {
        Created::New(value) => Ok((value, false)),
        Created::Replayed(value) => Ok((value, true)),
        Created::KeyReused => Err(ApiError::IdempotencyKeyReused),
    }
}

/// The body of a response for storing under its key: JSON as text, because `jsonb` does not keep the order of fields
/// and a replay must be identical byte for byte.
pub(crate) fn stored_body(response: &impl Serialize) -> Value {
    // Serialising strings and numbers cannot fail.
    Value::String(serde_json::to_string(response).unwrap_or_default())
}

/// What is stored with what a request creates: its key, and the body of the response, which a repetition gets again.
pub(crate) fn once<'k>(
    key: &'k Option<Key>,
    response: &impl Serialize,
) -> (Option<IdempotencyKey<'k>>, Value) {
    (key.as_ref().map(Key::as_stored), stored_body(response))
}

/// The 201 response with a body from [`stored_body`]; `Location` is `collection` and the `id` in the body.
pub(crate) fn created((stored, replayed): (Value, bool), collection: &str) -> Result<Response> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    let text = text_of(stored);
    let Identified { id } = serde_json::from_str(&text).map_err(inconsistent)?;
    let location = [(header::LOCATION, format!("{collection}/{id}"))];
    Ok((location, created_many((Value::String(text), replayed))).into_response())
}

/// The 201 response with a body from [`stored_body`] that has no `id`.
pub(crate) fn created_many((stored, replayed): (Value, bool)) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    respond((StatusCode::CREATED, headers, text_of(stored)), replayed)
}

/// The text of a stored body.
pub(crate) fn text_of(stored: Value) -> String {
    match stored {
        Value::String(text) => text,
        // Earlier releases stored the JSON itself.
        json => json.to_string(),
    }
}

/// Parses a response that is stored as JSON and not as it is sent.
pub(crate) fn parse_stored_response<T: DeserializeOwned>(stored: Value) -> Result<T> {
    serde_json::from_value(stored).map_err(inconsistent)
}

fn inconsistent(source: serde_json::Error) -> ApiError {
    let row = "an earlier request".to_owned();
    ApiError::Internal(Error::Inconsistent { table: "idempotency_keys", column: "response", row, source })
}

/// The response, with `Idempotent-Replayed: true` if it is a replay.
pub(crate) fn respond(response: impl IntoResponse, replayed: bool) -> Response {
    let mut response = response.into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn key(path: &str, value: &str, body: &str) -> Result<Key> {
        let request = Request::post(path).header("Idempotency-Key", value).body(()).unwrap();
        Key::from_request(&request.into_parts().0, [body.as_bytes()]).map(Option::unwrap)
    }

    #[test]
    fn key_may_be_quoted_and_belongs_to_one_request() {
        let bare = key("/v1/users", "a b", "{}").unwrap();
        let quoted = key("/v1/users", "\"a b\"", "{}").unwrap();
        assert_eq!((&bare.key, bare.request_sha256), (&quoted.key, quoted.request_sha256));
        assert_ne!(bare.request_sha256, key("/v1/users", "a b", "{} ").unwrap().request_sha256);
        assert_ne!(bare.request_sha256, key("/v1/goals", "a b", "{}").unwrap().request_sha256);
    }

    #[test]
    fn key_must_be_printable_and_not_too_long() {
        assert!(key("/", &"k".repeat(255), "").is_ok());
        for bad in ["", "\"\"", &"k".repeat(256), "a\tb"] {
            assert!(matches!(key("/", bad, ""), Err(ApiError::InvalidIdempotencyKey)), "{bad}");
        }
    }
}
