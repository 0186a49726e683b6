//! Requests of the REST API in the name of an MCP client: with its key, through the same routes.

use std::fmt;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderName, Method, Request, header};
use houston_protocol::problem::FieldError;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::caller::Authority;
use crate::caller::USER_HEADER;
use crate::request::body::JSON;
use crate::state::peers::Peer;

/// The most bytes of an answer that are read: a page of a hundred long messages.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// Why a tool has no result: the problem of the API.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refused(pub(super) Value);

impl Refused {
    /// An argument that is not accepted.
    pub(super) fn argument(name: &str, detail: impl Into<String>) -> Self {
        let errors = [FieldError::at(format!("/{name}"), detail)];
        Self(
            json!({"status": 422, "code": "invalid_request", "detail": "an argument is not accepted", "errors": errors}),
        )
    }

    fn unreadable() -> Self {
        Self(json!({"status": 500, "code": "internal", "detail": "the answer of the API cannot be read"}))
    }
}

impl fmt::Display for Refused {
    /// For a model: what is wrong, and where.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |name: &str| self.0[name].as_str().unwrap_or("unknown").to_owned();
        write!(f, "{}: {}", text("code"), text("detail"))?;
        for error in self.0["errors"].as_array().into_iter().flatten() {
            let at = error["pointer"].as_str().or(error["parameter"].as_str()).unwrap_or_default();
            write!(f, "\n{at}: {}", error["detail"].as_str().unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The API as one client may use it.
pub(super) struct Rest {
    pub(super) api: Router,
    pub(super) client: Parts,
}

impl Rest {
    pub(super) async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.send(Method::GET, path, None, None).await
    }

    /// `key`: the idempotency key.
    pub(super) async fn post(&self, path: &str, body: &Value, key: Option<&str>) -> Result<Value, Refused> {
        self.send(Method::POST, path, Some(body), key).await
    }

    /// Sends a request. The path consists of ids and numbers that were checked.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Value, Refused> {
        let mut request = Request::builder().method(method).uri(path);
        for name in [header::AUTHORIZATION, HeaderName::from_static("x-request-id"), USER_HEADER] {
            if let Some(value) = self.client.headers.get(&name) {
                request = request.header(name, value);
            }
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.header(header::CONTENT_TYPE, JSON);
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let Ok(mut request) = request.body(body) else {
            return Err(Refused::argument("idempotency_key", "must be printable ASCII"));
        };
        let (from, to) = (&self.client.extensions, request.extensions_mut());
        from.get::<Peer>().map(|peer| to.insert(*peer));
        // The key as it was looked up.
        from.get::<Authority>().map(|authority| to.insert(authority.clone()));
        let Ok(response) = self.api.clone().oneshot(request).await;
        let is_success = response.status().is_success();
        let bytes = to_bytes(response.into_body(), MAX_ANSWER_BYTES).await;
        let bytes = bytes.map_err(|_| Refused::unreadable())?;
        let answer = serde_json::from_slice(&bytes).map_err(|_| Refused::unreadable())?;
        if is_success { Ok(answer) } else { Err(Refused(answer)) }
    }
}
