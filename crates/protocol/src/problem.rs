//! The body of every error response: RFC 9457, `application/problem+json`.

use std::borrow::Cow;

use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::schema;

pub use crate::problem_code::ProblemCode;

/// Why a request was refused.
///
/// ```json
/// {
///   "type": "urn:houston:problem:invalid_request",
///   "title": "Unprocessable Entity",
///   "status": 422,
///   "detail": "the request does not have the expected shape",
///   "instance": "/v1/users",
///   "code": "invalid_request",
///   "request_id": "req_0190…",
///   "errors": [{"pointer": "/name", "detail": "missing field `name`"}]
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem<'a> {
    /// `urn:houston:problem:` and the code; of `rate_limited` the type that is registered for it.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// The name of the HTTP status.
    pub title: Cow<'a, str>,
    /// The HTTP status.
    pub status: u16,
    /// For people: what is wrong, what is allowed, and what to do.
    pub detail: Cow<'a, str>,
    /// The path of the request.
    pub instance: Cow<'a, str>,
    /// For programs: what is wrong.
    pub code: ProblemCode,
    /// The id of the request in the log and in the header `X-Request-Id`.
    pub request_id: Cow<'a, str>,
    /// With `invalid_state`: how the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunStatus>))]
    pub current_status: Option<RunStatus>,
    /// With `run_in_progress`: the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RunId>))]
    pub run_id: Option<RunId>,
    /// With `already_exists`: the id of the existing resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_id: Option<Cow<'a, str>>,
    /// The limit that was exceeded, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// With `rate_limited`: after how many milliseconds to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// With `rate_limited`: the limits that are exceeded, by their names in `RateLimit-Policy`.
    #[serde(default, rename = "violated-policies", skip_serializing_if = "<[Cow<'_, str>]>::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub violated_policies: Cow<'a, [Cow<'a, str>]>,
    /// With `invalid_request`: the errors and their positions.
    #[serde(default, skip_serializing_if = "<[FieldError]>::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<FieldError>))]
    pub errors: Cow<'a, [FieldError]>,
}

/// One error of a request: `{"pointer": "/name", "detail": "must be one line"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Its position in the body: a JSON Pointer, as in `/agents/0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of the query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What is wrong.
    pub detail: String,
}

impl FieldError {
    /// An error at this JSON Pointer of the body.
    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), parameter: None, detail: detail.into() }
    }

    /// An error of a query parameter.
    pub fn parameter(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: None, parameter: Some(name.into()), detail: detail.into() }
    }
}
