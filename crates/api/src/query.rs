//! Query strings. Errors name the parameter.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
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

/// The time in a parameter.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it is none.
pub(crate) fn time(name: &str, given: Option<&str>) -> Result<Option<DateTime<Utc>>, ApiError> {
    let wrong = "must be a time, as in 2026-11-22T09:00:00Z";
    let time = given.map(str::parse::<DateTime<Utc>>).transpose();
    time.map(|time| time.map(clamped)).map_err(|_| ApiError::parameter(name, wrong))
}

/// A time that Postgres can compute with: nothing is older than 1970, or as late as the year 9999.
pub(crate) fn clamped(time: DateTime<Utc>) -> DateTime<Utc> {
    const LATEST_S: i64 = 253_402_300_799;
    let latest = DateTime::from_timestamp(LATEST_S, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
    time.clamp(DateTime::UNIX_EPOCH, latest)
}
