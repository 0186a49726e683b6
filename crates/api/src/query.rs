//! Query strings. Errors name the parameter.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The parsed query string.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri).map(|query| Self(query.0)).map_err(|error| {
            let text =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            // serde_urlencoded names the parameter only in its message.
            let name =
                text.split(['`', ':']).nth(usize::from(text.starts_with("unknown field"))).unwrap_or("");
            ApiError::parameter(name, text.clone())
        })
    }
}
