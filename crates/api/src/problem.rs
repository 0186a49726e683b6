//! RFC 9457: the body of every refusal.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use houston_domain::id::RunId;
use serde::Serialize;

use crate::error::{ApiError, Fault};

/// A refusal on its way to the envelope.
#[derive(Debug, Clone)]
pub(crate) struct Refused(Arc<ApiError>);

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self(Arc::new(error))
    }
}

#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    instance: &'a str,
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Fault],
}

impl Refused {
    pub(crate) fn error(&self) -> &ApiError {
        &self.0
    }

    /// Writes the body and the headers that belong to it.
    pub(crate) fn write(&self, instance: &str, request_id: &str, response: &mut Response<Body>) {
        let error = self.error();
        let errors: &[Fault] = if let ApiError::InvalidRequest { errors } = error { errors } else { &[] };
        let problem = Problem {
            r#type: format!("urn:houston:problem:{}", error.code()),
            title: error.status().canonical_reason().unwrap_or("Error"),
            status: error.status().as_u16(),
            detail: error.to_string(),
            instance,
            code: error.code(),
            request_id,
            current_status: match error {
                ApiError::InvalidState { status } => Some(status.as_str()),
                _ => None,
            },
            run_id: match error {
                ApiError::RunInProgress { run } => Some(*run),
                _ => None,
            },
            limit: error.limit(),
            errors,
        };
        // Strings and numbers always become JSON.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let ApiError::Unauthorized = error {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = error.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
    }
}
