//! Errors as OpenAI's clients read them. They repeat 408, 409, 429 and 5xx by themselves unless a header says otherwise.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use houston_protocol::problem::ProblemCode;
use serde_json::{Value, json};

use super::id::ResponseId;
use crate::caller::USER_HEADER;
use crate::error::ApiError;

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Rewrites the body of an error response, whose headers stay.
pub(crate) fn rewrite(error: &ApiError, response: &mut Response) {
    // They know 422 as well, but OpenAI has 400 for all that is wrong in a request.
    if response.status() == StatusCode::UNPROCESSABLE_ENTITY {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    let details = details(error, response.status());
    let is_final = match error {
        // What was asked for may have happened.
        ApiError::TimedOut { changes, .. } => *changes,
        _ => response.status() == StatusCode::CONFLICT && error.code() != ProblemCode::RunInProgress,
    };
    if is_final {
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    *response.body_mut() = Body::from(details.to_string());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// The error of a run that failed while the request waited. To repeat the request would post the message again.
pub(super) fn of_run(code: &str, message: &str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (SHOULD_RETRY, HeaderValue::from_static("false")),
    ];
    (StatusCode::BAD_GATEWAY, headers, body(message, "server_error", None, code).to_string()).into_response()
}

/// The body of an error. `param`: what is wrong, as in `input[0].content`.
pub(super) fn body(message: &str, kind: &str, param: Option<&str>, code: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}

fn details(error: &ApiError, status: StatusCode) -> Value {
    let (mut message, mut param) = (error.to_string(), None);
    if let ApiError::InvalidRequest(errors) = error
        && let Some(first) = errors.first()
    {
        param = first.pointer.as_deref().map(name).or_else(|| first.parameter.clone());
        if param.as_deref() == Some(USER_HEADER.as_str()) {
            param = Some("safety_identifier".to_owned());
        }
        let name = param.as_deref().filter(|name| !name.is_empty());
        message = name.map_or_else(|| first.detail.clone(), |name| format!("{name}: {}", first.detail));
    }
    if let ApiError::MessageRejected(run) = error {
        let id = ResponseId { run: *run, after: 0 };
        message =
            format!("the response {id} of this conversation is in progress; wait for its end, or cancel it");
    }
    let code = match error.code() {
        ProblemCode::Unauthorized => "invalid_api_key",
        ProblemCode::TooManyPending | ProblemCode::TooManyStreams | ProblemCode::TooManyKeys => {
            "rate_limit_exceeded"
        }
        ProblemCode::RunInProgress => "conversation_locked",
        code => code.as_str(),
    };
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    body(&message, kind, param.as_deref(), code)
}

/// A JSON Pointer as OpenAI writes it: `input[0].content`.
fn name(pointer: &str) -> String {
    let mut name = String::new();
    for segment in pointer.split('/').skip(1) {
        if segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.is_empty() {
            name.push_str(&format!("[{segment}]"));
        } else {
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(segment);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_written_as_names() {
        assert_eq!(name("/input/0/content/12/type"), "input[0].content[12].type");
        assert_eq!((name("/model"), name("")), ("model".to_owned(), String::new()));
    }

    #[test]
    fn invalid_requests_are_400_with_the_parameter() {
        let error = ApiError::field("/input/0/role", "`king` is not supported");
        let mut response = error.status().into_response();
        rewrite(&error, &mut response);
        assert_eq!(response.status(), 400);
        let expected = json!({"error": {"message": "input[0].role: `king` is not supported",
            "type": "invalid_request_error", "param": "input[0].role", "code": "invalid_request"}});
        assert_eq!(details(&error, response.status()), expected);
    }
}
