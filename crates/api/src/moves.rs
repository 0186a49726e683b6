//! Requests while users move to another cell. A cell from which users have gone, or to which they are still on their way, finds
//! nothing of them. So what a request does not find is looked for twice: the cell is asked whether it has the shard
//! ([`Moves::has`]), and if not, the answer is 503: the request was not carried out, and may be repeated.

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use houston_domain::id::Shard;
use houston_store::moves::Moves;

use crate::error::{ApiError, ResponseError};
use crate::openai;
use crate::streams::Aborted;

/// Whether the client of a stream, which may be a browser, has come back.
pub(crate) fn resumes_stream(request: &Request) -> bool {
    request.headers().contains_key("last-event-id")
}

/// Whether an answer may be wrong because a user is not in the cell that was asked.
pub(crate) fn is_doubtful(answer: &Response) -> bool {
    // 409 and 422 also of a request that names something else of the user.
    [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY].contains(&answer.status())
}

/// The answer to a request that continued in another cell, or that it is to be repeated.
pub(crate) async fn checked(
    moves: &Moves,
    path: &str,
    resumes_stream: bool,
    (answer, continued): (Response, Option<(usize, Shard)>),
) -> Response {
    match continued {
        Some((cell, shard)) if is_doubtful(&answer) && !moves.has(cell, shard).await => {
            again(path, &answer, resumes_stream)
        }
        _ => answer,
    }
}

/// The response for a user who is being moved: repeat the request. It was not carried out.
pub(crate) fn again(path: &str, answer: &Response, resumes_stream: bool) -> Response {
    let request = answer.headers().get("x-request-id").cloned();
    let mut failed = ApiError::Unavailable(None).into_response();
    if let Some(problem) = failed.extensions_mut().remove::<ResponseError>() {
        let id = request.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
        problem.write(path, id, &mut failed);
        if openai::is_path(path) {
            openai::error::rewrite(problem.error(), &mut failed);
        }
    }
    if resumes_stream {
        // An EventSource does not reconnect after an error status, but it does after a broken connection.
        *failed.body_mut() = Body::new(Aborted);
    }
    failed.headers_mut().extend(request.map(|id| (axum::http::HeaderName::from_static("x-request-id"), id)));
    failed
}
