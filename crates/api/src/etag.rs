//! `ETag` for answers of GET in JSON: a client that has the same answer already gets 304, without a body.
//!
//! The tag is a hash of the answer's bytes. So it needs no versions of rows, and is right whatever an answer consists of; what
//! it saves is the transfer, not the query. It is weak, because proxies that compress may keep weak ones. `Cache-Control` stays
//! `no-store`: an app keeps what it shows by itself, and no cache of a browser has conversations.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body::Body as _;
use sha2::{Digest as _, Sha256};

/// Longer answers have no tag: they would be held in memory.
const MAX_BYTES: u64 = 1 << 20;
/// Bytes of the hash that a tag has.
const TAG_BYTES: usize = 16;

/// Adds tags, and answers 304.
pub(crate) async fn etag(request: Request, next: Next) -> Response {
    let is_get = request.method() == Method::GET;
    let had: Vec<HeaderValue> = match is_get {
        true => request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect(),
        false => Vec::new(),
    };
    let response = next.run(request).await;
    if is_get && is_tagged(&response) { tag(response, &had).await } else { response }
}

/// Whether this is a JSON answer of a moderate length that it says.
fn is_tagged(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    response.status() == StatusCode::OK
        && kind.is_some_and(|kind| kind.as_bytes() == b"application/json")
        && response.body().size_hint().exact().is_some_and(|bytes| bytes <= MAX_BYTES)
}

async fn tag(response: Response, had: &[HeaderValue]) -> Response {
    let (mut parts, body) = response.into_parts();
    let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    let Ok(bytes) = to_bytes(body, limit).await else {
        // The body of a complete answer does not fail.
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let tag = tag_of(&bytes);
    let is_same = had.iter().any(|had| names(had, &tag));
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(header::ETAG, value);
    }
    if !is_same {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::empty())
}

fn tag_of(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let digits: String = hash[..TAG_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{digits}\"")
}

/// Whether an `If-None-Match` names the tag, weak or strong, or any.
fn names(had: &HeaderValue, tag: &str) -> bool {
    let opaque = tag.trim_start_matches("W/");
    let Ok(had) = had.to_str() else { return false };
    had.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == opaque)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        let tag = tag_of(b"{}");
        assert_eq!(tag, tag_of(b"{}"));
        assert_ne!(tag, tag_of(b"[]"));
        let strong = tag.trim_start_matches("W/").to_owned();
        for had in [tag.clone(), strong, "*".to_owned(), format!("\"other\" , {tag}")] {
            assert!(names(&HeaderValue::from_str(&had).unwrap(), &tag), "{had}");
        }
        for had in ["", "\"other\"", "W/\"\""] {
            assert!(!names(&HeaderValue::from_static(had), &tag), "{had}");
        }
    }
}
