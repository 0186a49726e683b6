//! Query strings. Errors name the parameter.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Result};

/// The parsed query string.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri).map(|query| Self(query.0)).map_err(|error| {
            let text =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            refused(&text)
        })
    }
}

/// The error of a query string. Its parser names the parameter only in its message.
fn refused(text: &str) -> ApiError {
    let quoted = |begin: &str| Some(text.strip_prefix(begin)?.split_once('`')?.0);
    if let Some(name) = quoted("duplicate field `") {
        let detail = "is given more than once: send it once; one that takes several values takes them with commas between";
        return ApiError::parameter(name, detail);
    }
    let name = quoted("unknown field `").or_else(|| quoted("missing field `")).or(text.split(':').next());
    ApiError::parameter(name.unwrap_or_default(), text)
}

/// Hours that an endpoint looks back if the query has none, and at most.
const HOURS: u32 = 24;
const MAX_HOURS: u32 = 24 * 31;

/// `?hours=24`: how far an endpoint looks back.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    hours: Option<String>,
}

impl Window {
    /// Its hours, and the same as a duration.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] when they are no number from 1 to [`MAX_HOURS`].
    pub(crate) fn hours(&self) -> Result<(u32, Duration)> {
        let hours = match self.hours.as_deref().map(str::parse) {
            None => HOURS,
            Some(Ok(hours)) if (1..=MAX_HOURS).contains(&hours) => hours,
            Some(_) => {
                return Err(ApiError::parameter("hours", format!("must be a number from 1 to {MAX_HOURS}")));
            }
        };
        Ok((hours, Duration::from_secs(u64::from(hours) * 3600)))
    }
}

/// Checks that Postgres can store the text in a parameter.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it cannot.
pub(crate) fn check_parameter(name: &str, given: Option<&str>) -> Result<()> {
    match given {
        Some(given) if given.contains('\0') => {
            Err(ApiError::parameter(name, "must not contain the character U+0000"))
        }
        _ => Ok(()),
    }
}

/// The id in a parameter.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it is none.
pub(crate) fn id<T: FromStr<Err: Display>>(name: &str, given: Option<&str>) -> Result<Option<T>> {
    let id = given.map(str::parse::<T>).transpose();
    id.map_err(|error| ApiError::parameter(name, error.to_string()))
}

/// The time in a parameter.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it is none.
pub(crate) fn time(name: &str, given: Option<&str>) -> Result<Option<DateTime<Utc>>> {
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
