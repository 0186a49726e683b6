//! Conversions of other errors to [`ApiError`], and of [`ApiError`] to a response.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_protocol::problem::FieldError;
use houston_store::FolderError;

use super::ApiError;
use crate::explain::ExplainError;
use crate::problem::ResponseError;

impl From<houston_store::Error> for ApiError {
    fn from(error: houston_store::Error) -> Self {
        match error {
            houston_store::Error::NotFound { what } => Self::NotFound { what },
            houston_store::Error::Full { what, limit } => Self::Full { what, limit },
            houston_store::Error::RunInProgress { run } => Self::MessageRejected { run },
            houston_store::Error::EventsExpired { from } => Self::EventLogExpired(from),
            houston_store::Error::TooLarge { what, limit } => Self::TooLarge { what, limit },
            error @ (houston_store::Error::NoSuchPosition { .. }
            | houston_store::Error::InsideTurn { .. }) => Self::field("/position", error.to_string()),
            houston_store::Error::Folder(FolderError::Obstacle(obstacle)) => {
                Self::field("/path", obstacle.to_string())
            }
            error @ (houston_store::Error::Folder(_)
            | houston_store::Error::Objects(_)
            | houston_store::Error::NoObjects) => Self::Unavailable(Some(error)),
            houston_store::Error::TooManyPending { pending, limit } => {
                Self::TooManyPending { pending, limit }
            }
            error if error.is_transient() => Self::Unavailable(Some(error)),
            error => Self::Internal(error),
        }
    }
}

impl From<ExplainError> for ApiError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Store(error) => error.into(),
            error @ ExplainError::SetUp(_) => {
                tracing::error!(%error, "cannot set up the agent type to explain its prompt or tools");
                Self::Unavailable(None)
            }
        }
    }
}

impl IntoResponse for ApiError {
    /// Sets only the status; `envelope` writes the body, because it knows the request id.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(ResponseError::from(self));
        response
    }
}

impl ApiError {
    /// The HTTP status that belongs to the code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// [`Self::InvalidRequest`] for one query parameter.
    pub(crate) fn parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest { errors: vec![FieldError::parameter(name, detail)] }
    }

    /// [`Self::InvalidRequest`] for one field of the body, by its JSON Pointer.
    pub(crate) fn field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest { errors: vec![FieldError::at(pointer, detail)] }
    }
}
