//! Errors in the words of A2A: a JSON-RPC error, or a `google.rpc.Status` over HTTP.

use std::collections::HashMap;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use houston_protocol::a2a::{
    A2AError, FieldViolation, JsonRpcId, JsonRpcResponse, PROTOCOL_DOMAIN, TypedDetail, error_code,
    error_reason,
};
use serde_json::json;

use crate::error::{ApiError, ResponseError};

/// For errors that A2A has no code for: limits, missing scopes, conflicts.
const OTHER: i32 = -32000;

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// One of the protocol's own errors.
    #[error(transparent)]
    Protocol(#[from] A2AError),
}

impl From<houston_store::Error> for Refusal {
    fn from(error: houston_store::Error) -> Self {
        Self::Api(error.into())
    }
}

impl Refusal {
    /// The same refusal, if it is not about a task that is not there.
    pub(super) fn of_task(self, id: &str) -> Self {
        match self {
            Self::Api(ApiError::NotFound(_) | ApiError::InvalidRequest(_)) => {
                Self::Protocol(A2AError::task_not_found(&id.chars().take(80).collect::<String>()))
            }
            other => other,
        }
    }

    /// The error with the HTTP status that it has where the status is not always 200.
    fn described(&self) -> (StatusCode, A2AError) {
        match self {
            Self::Protocol(error) => {
                let status = StatusCode::from_u16(error.http_status_code());
                (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error.clone())
            }
            Self::Api(error) => (error.status(), of_api(error)),
        }
    }

    /// The answer over JSON-RPC: 200 with an error, except where HTTP itself says what to do (authenticate, wait).
    pub(super) fn into_rpc(self, id: JsonRpcId) -> Response {
        let (_, error) = self.described();
        let body = JsonRpcResponse::error(id, error.to_jsonrpc_error());
        match self {
            // Its client needs the status and the headers, whatever the protocol.
            Self::Api(error) if [401, 403, 429, 503].contains(&error.status().as_u16()) => {
                written(error, &body)
            }
            _ => Json(body).into_response(),
        }
    }

    /// The answer over HTTP+JSON.
    pub(super) fn into_http(self) -> Response {
        let (status, error) = self.described();
        let mut details = error.details.clone().unwrap_or_default();
        if matches!(self, Self::Protocol(_)) {
            details.push(TypedDetail::error_info(error_reason(error.code), PROTOCOL_DOMAIN, None));
        }
        let body = json!({"error": {
            "code": status.as_u16(), "status": rpc_status(status, error.code), "message": error.message, "details": details,
        }});
        match self {
            Self::Api(error) => written(error, &body),
            Self::Protocol(_) => {
                (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
            }
        }
    }
}

fn written(error: ApiError, body: &impl serde::Serialize) -> Response {
    let mut response = error.status().into_response();
    let body = serde_json::to_vec(body).unwrap_or_default();
    response.extensions_mut().insert(ResponseError::from(error).with_body(body, "application/json"));
    response
}

/// An error of the API, with its code and its fields as details.
fn of_api(error: &ApiError) -> A2AError {
    let code = match error {
        ApiError::InvalidJson { .. } => error_code::PARSE_ERROR,
        ApiError::UnsupportedMediaType(_) => error_code::CONTENT_TYPE_NOT_SUPPORTED,
        ApiError::MethodNotAllowed => error_code::METHOD_NOT_FOUND,
        ApiError::InvalidState(_) => error_code::TASK_NOT_CANCELABLE,
        ApiError::InvalidRequest(_)
        | ApiError::EmptyMessage
        | ApiError::MessageTooLarge { .. }
        | ApiError::InvalidIdempotencyKey
        | ApiError::IdempotencyKeyReused
        | ApiError::InvalidCursor
        | ApiError::NotFound(_) => error_code::INVALID_PARAMS,
        ApiError::Internal(_) | ApiError::Unavailable(_) | ApiError::TimedOut { .. } => {
            error_code::INTERNAL_ERROR
        }
        _ => OTHER,
    };
    let mut details = Vec::new();
    if let ApiError::InvalidRequest(errors) = error {
        let violation = |field: &houston_protocol::problem::FieldError| FieldViolation {
            field: field.pointer.clone().or(field.parameter.clone()).unwrap_or_default(),
            description: field.detail.clone(),
        };
        details.push(TypedDetail::bad_request(errors.iter().map(violation).collect()));
    }
    let own = HashMap::from([("code".to_owned(), error.code().as_str().to_owned())]);
    let reason = error.code().as_str().to_uppercase();
    details.push(TypedDetail::error_info(reason, "houston", Some(own)));
    A2AError::new(code, error.to_string()).with_details(details)
}

/// The name of a `google.rpc.Code`.
fn rpc_status(status: StatusCode, code: i32) -> &'static str {
    match (status.as_u16(), code) {
        (_, error_code::TASK_NOT_CANCELABLE | error_code::PUSH_NOTIFICATION_NOT_SUPPORTED) => {
            "FAILED_PRECONDITION"
        }
        (_, error_code::UNSUPPORTED_OPERATION | error_code::VERSION_NOT_SUPPORTED) => "UNIMPLEMENTED",
        (400 | 408 | 413 | 415 | 422, _) => "INVALID_ARGUMENT",
        (401, _) => "UNAUTHENTICATED",
        (403, _) => "PERMISSION_DENIED",
        (404, _) => "NOT_FOUND",
        (405 | 501, _) => "UNIMPLEMENTED",
        (409, _) => "FAILED_PRECONDITION",
        (429, _) => "RESOURCE_EXHAUSTED",
        (503, _) => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_errors_have_their_code_and_fields_as_details() {
        let error = of_api(&ApiError::field("/message/parts/0", "is empty"));
        assert_eq!(error.code, error_code::INVALID_PARAMS);
        let details = serde_json::to_value(error.details.unwrap()).unwrap();
        assert_eq!(details[0]["fieldViolations"][0]["field"], "/message/parts/0");
        assert_eq!(details[1]["reason"], "INVALID_REQUEST");
        let refused = of_api(&ApiError::BoundKey);
        assert_eq!(refused.code, OTHER);
    }

    #[test]
    fn what_is_not_found_is_a_task_where_tasks_are_meant() {
        let missing = Refusal::from(ApiError::NotFound("run")).of_task("run_1");
        let (status, error) = missing.described();
        assert_eq!((status.as_u16(), error.code), (404, error_code::TASK_NOT_FOUND));
        let (status, error) = Refusal::from(ApiError::NotFound("agent")).described();
        assert_eq!((status.as_u16(), error.code), (404, error_code::INVALID_PARAMS));
    }
}
