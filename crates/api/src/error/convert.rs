//! What other errors become for clients, and how an error becomes a response.

use axum::response::{IntoResponse, Response};

use super::ApiError;
use crate::explain::Unexplained;
use crate::problem::Refused;

impl From<houston_store::Error> for ApiError {
    fn from(error: houston_store::Error) -> Self {
        match error {
            houston_store::Error::NotFound { what } => Self::NotFound { what },
            houston_store::Error::Full { what, limit } => Self::Full { what, limit },
            houston_store::Error::RunInProgress { run } => Self::MessageRejected { run },
            houston_store::Error::TooLarge { what, limit } => Self::TooLarge { what, limit },
            error @ (houston_store::Error::NoSuchPosition { .. }
            | houston_store::Error::InsideTurn { .. }) => Self::field("/position", error.to_string()),
            houston_store::Error::TooManyPending { pending, limit } => {
                Self::TooManyPending { pending, limit }
            }
            error if error.is_transient() => Self::Unavailable(Some(error)),
            error => Self::Internal(error),
        }
    }
}

impl From<Unexplained> for ApiError {
    fn from(error: Unexplained) -> Self {
        match error {
            Unexplained::Store(error) => error.into(),
            error @ Unexplained::SetUp(_) => {
                tracing::error!(%error, "cannot say what the engine would do");
                Self::Unavailable(None)
            }
        }
    }
}

impl IntoResponse for ApiError {
    /// The status only; the envelope around all endpoints writes the body, since it knows the request's id.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Refused::from(self));
        response
    }
}
