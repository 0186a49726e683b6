//! Requests of the API in the name of a viewer, within the process.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use houston_protocol::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::Carry;

/// The most bytes of an answer that are read: the trace of a long run.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Which headers of the browser's request the API reads, too.
const CARRIED: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-for"), HeaderName::from_static("last-event-id")];

/// Names the cells that are missing in an answer, with commas between.
const MISSING_CELLS: &str = "houston-missing-cells";

/// The API as one viewer may use it.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    router: Router,
    headers: HeaderMap,
    client: Extensions,
    /// In all answers so far.
    pub(crate) missing: MissingCells,
}

/// The cells that were missing in the answers of which a page consists.
#[derive(Debug, Clone, Default)]
pub(crate) struct MissingCells(Arc<Mutex<BTreeSet<String>>>);

impl MissingCells {
    fn note(&self, headers: &HeaderMap) {
        let Some(names) = headers.get(MISSING_CELLS).and_then(|names| names.to_str().ok()) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(names.split(',').map(|name| name.trim().to_owned()));
    }

    /// Their names, with commas between; empty: there is none.
    pub(crate) fn names(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Why the API did not do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    /// A stable name, such as `not_found`.
    pub(crate) code: String,
    pub(crate) detail: String,
    pub(crate) request_id: String,
}

/// The result of a request.
pub(crate) type Result<T, E = Refused> = std::result::Result<T, E>;

impl Refused {
    /// What the console itself refuses.
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), detail: detail.into(), request_id: String::new() }
    }

    /// Whether the form that was sent is to be shown again: another version of it may be accepted.
    pub(crate) fn is_of_form(&self) -> bool {
        matches!(self.status, StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY)
    }

    fn unreadable(status: StatusCode) -> Self {
        Self::new(status, "unreadable", "the answer of the API cannot be read")
    }

    fn of(status: StatusCode, body: &[u8]) -> Self {
        let Ok(problem) = serde_json::from_slice::<Problem<'static>>(body) else {
            return Self::unreadable(status);
        };
        let detail = problem.to_string();
        Self { status, code: problem.code.to_string(), detail, request_id: problem.request_id.into_owned() }
    }
}

impl Api {
    /// The API with this key, for the client that has sent `request`. `None`: the key cannot stand in a header.
    pub(crate) fn new(router: Router, key: &str, request: &Parts, carry: Carry) -> Option<Self> {
        let mut headers = HeaderMap::new();
        let mut authorization = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
        authorization.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, authorization);
        for name in CARRIED {
            if let Some(value) = request.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let mut client = Extensions::new();
        carry(&request.extensions, &mut client);
        Some(Self { router, headers, client, missing: MissingCells::default() })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        parsed(&self.read(self.send(Method::GET, path, None).await).await?)
    }

    /// The answer as it is: bytes of a file, lines of a trace.
    pub(crate) async fn bytes(&self, path: &str) -> Result<Bytes> {
        self.read(self.send(Method::GET, path, None).await).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        parsed(&self.change(Method::POST, path, body).await?)
    }

    /// Sends a request that changes something; returns the body of its answer.
    pub(crate) async fn change(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Bytes> {
        // Requests have string keys only, so they can be written.
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.read(self.send(method, path, Some(body)).await).await
    }

    /// As [`change`](Self::change), but a repetition with the same key does nothing: a form may be sent twice. The audit log has it, also
    /// if it is a message.
    pub(crate) async fn post_once(&self, path: &str, body: &impl Serialize, key: &str) -> Result<Bytes> {
        let mut once = self.clone();
        once.headers.insert("houston-audit", HeaderValue::from_static("true"));
        if let (false, Ok(key)) = (key.is_empty(), HeaderValue::from_str(key)) {
            once.headers.insert("idempotency-key", key);
        }
        once.change(Method::POST, path, body).await
    }

    /// The response as the API sends it, for streams.
    pub(crate) async fn stream(&self, path: &str) -> Response {
        self.send(Method::GET, path, None).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Response {
        let is_json = body.is_some();
        let mut request = Request::new(body.map_or_else(Body::empty, Body::from));
        *request.method_mut() = method;
        // Paths consist of ids that were read from links: what is no path finds nothing.
        *request.uri_mut() = path.parse().unwrap_or_else(|_| axum::http::Uri::from_static("/unknown"));
        *request.headers_mut() = self.headers.clone();
        if is_json {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        *request.extensions_mut() = self.client.clone();
        let Ok(response) = self.router.clone().oneshot(request).await;
        self.missing.note(response.headers());
        response
    }

    async fn read(&self, response: Response) -> Result<Bytes> {
        let status = response.status();
        let body = to_bytes(response.into_body(), MAX_ANSWER_BYTES).await;
        let body = body.map_err(|_| Refused::unreadable(StatusCode::BAD_GATEWAY))?;
        if status.is_success() { Ok(body) } else { Err(Refused::of(status, &body)) }
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        tracing::error!(%error, "an answer of the API has another shape than the console expects");
        Refused::unreadable(StatusCode::BAD_GATEWAY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cells_of_all_answers_are_named_once() {
        let missing = MissingCells::default();
        missing.note(&HeaderMap::new());
        assert_eq!(missing.names(), "");
        for names in ["third, 0000-3fff", "0000-3fff"] {
            let value = HeaderValue::from_static(names);
            missing.note(&[(HeaderName::from_static(MISSING_CELLS), value)].into_iter().collect());
        }
        assert_eq!(missing.names(), "0000-3fff, third");
    }
}
