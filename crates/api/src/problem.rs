//! RFC 9457 problem details: the body of every error response.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use houston_protocol::problem::Problem;

use crate::error::ApiError;
use crate::rates::whole_seconds;

/// The problem type of exceeded quotas in IANA's registry.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The error of a response, carried in its extensions to `envelope`, which writes the body.
#[derive(Debug, Clone)]
pub(crate) struct ResponseError {
    error: Arc<ApiError>,
    /// The body in the words of another protocol, with its media type.
    body: Option<(Bytes, &'static str)>,
}

impl From<ApiError> for ResponseError {
    fn from(error: ApiError) -> Self {
        Self { error: Arc::new(error), body: None }
    }
}

impl ResponseError {
    pub(crate) fn error(&self) -> &ApiError {
        &self.error
    }

    /// The same error with a body that is no problem, on an endpoint of another protocol.
    pub(crate) fn with_body(self, body: impl Into<Bytes>, content_type: &'static str) -> Self {
        Self { body: Some((body.into(), content_type)), ..self }
    }

    /// Writes the problem as body and the headers that belong to it.
    pub(crate) fn write(&self, instance: &str, request_id: &str, response: &mut Response<Body>) {
        let error = self.error();
        let problem = Problem {
            kind: match error {
                ApiError::RateLimited { .. } => QUOTA_EXCEEDED.into(),
                _ => format!("urn:houston:problem:{}", error.code()).into(),
            },
            title: error.status().canonical_reason().unwrap_or("Error").into(),
            status: error.status().as_u16(),
            detail: error.to_string().into(),
            instance: instance.into(),
            code: error.code(),
            request_id: request_id.into(),
            current_status: match error {
                ApiError::InvalidState { status } => Some(*status),
                _ => None,
            },
            run_id: match error {
                ApiError::MessageRejected { run } => Some(*run),
                _ => None,
            },
            existing_id: match error {
                ApiError::AlreadyExists { existing, .. } => existing.as_deref().map(Cow::Borrowed),
                _ => None,
            },
            limit: error.limit(),
            retry_after_ms: match error {
                ApiError::RateLimited { retry_after, .. } => u64::try_from(retry_after.as_millis()).ok(),
                _ => None,
            },
            violated_policies: match error {
                ApiError::RateLimited { policy, .. } => vec![Cow::Borrowed(*policy)].into(),
                _ => Cow::Borrowed(&[]),
            },
            errors: match error {
                ApiError::InvalidRequest { errors } => errors.into(),
                _ => Cow::Borrowed(&[]),
            },
        };
        // Serialising strings and numbers cannot fail.
        let own = || (serde_json::to_vec(&problem).unwrap_or_default().into(), "application/problem+json");
        let (body, content_type) = self.body.clone().unwrap_or_else(own);
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let ApiError::Unauthorized = error {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let ApiError::InvalidJwt(_) = error {
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let ApiError::MissingScope { needed, .. } = error {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\"");
            headers
                .extend(HeaderValue::try_from(challenge).ok().map(|value| (header::WWW_AUTHENTICATE, value)));
        }
        if let Some(seconds) = error.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

impl ApiError {
    /// `Retry-After` in seconds.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(whole_seconds(*retry_after).max(1)),
            Self::TooManyKeys => Some(60),
            Self::NoIssuerKeys => Some(5),
            Self::Unavailable(_) | Self::TimedOut { .. } => Some(1),
            // A run reads up to a hundred messages at once and takes some seconds.
            Self::TooManyPending { .. } | Self::TooManyStreams { .. } | Self::TooManyDocuments { .. } => {
                Some(5)
            }
            _ => None,
        }
    }

    /// The exceeded limit, if the error is about one.
    fn limit(&self) -> Option<u64> {
        match self {
            Self::RateLimited { quota, .. } => Some(u64::from(quota.quota)),
            Self::TooManyPending { limit, .. } => Some(u64::from(*limit)),
            Self::TooManyStreams { limit, .. } | Self::TooManyDocuments { limit } => {
                u64::try_from(*limit).ok()
            }
            Self::Full { limit, .. } => u64::try_from(*limit).ok(),
            _ => None,
        }
    }
}
