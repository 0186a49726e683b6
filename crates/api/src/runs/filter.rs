//! Which runs a list or a change of many runs means.

use houston_domain::run::RunStatus;
use houston_protocol::run_list::RunsFilter;
use houston_protocol::time::Time;
use houston_store::run_list::RunFilter;
use serde::Deserialize;

use crate::error::ApiError;
use crate::query::{clamped, time};

/// The query of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilterQuery {
    status: Option<String>,
    kind: Option<String>,
    agent_id: Option<String>,
    user_id: Option<String>,
    error_code: Option<String>,
    fingerprint: Option<String>,
    since: Option<String>,
    until: Option<String>,
    pub(crate) limit: Option<String>,
    pub(crate) cursor: Option<String>,
}

impl FilterQuery {
    /// # Errors
    /// [`ApiError::InvalidRequest`] when a parameter cannot be read.
    pub(crate) fn filter(&self) -> Result<RunsFilter, ApiError> {
        let read = |names: &str| names.split(',').map(status).collect::<Result<Vec<_>, _>>();
        let statuses = self.status.as_deref().map(read);
        for (name, given) in [("kind", &self.kind), ("error_code", &self.error_code)] {
            if given.as_deref().is_some_and(|given| given.contains('\0')) {
                return Err(ApiError::parameter(name, "must not contain the character U+0000"));
            }
        }
        if self.fingerprint.as_deref().is_some_and(|given| !is_fingerprint(given)) {
            return Err(ApiError::parameter("fingerprint", NO_FINGERPRINT));
        }
        Ok(RunsFilter {
            status: statuses.transpose()?,
            kind: self.kind.clone(),
            agent_id: id("agent_id", self.agent_id.as_deref())?,
            user_id: id("user_id", self.user_id.as_deref())?,
            error_code: self.error_code.clone(),
            fingerprint: self.fingerprint.clone(),
            since: time("since", self.since.as_deref())?.map(Time),
            until: time("until", self.until.as_deref())?.map(Time),
        })
    }
}

/// What is wrong with a text that is no fingerprint.
pub(crate) const NO_FINGERPRINT: &str =
    "must be a fingerprint as `GET /v1/errors` has it: 16 hexadecimal digits, in lower case";

pub(crate) fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn status(name: &str) -> Result<RunStatus, ApiError> {
    RunStatus::from_name(name.trim()).ok_or_else(|| {
        let allowed: Vec<&str> = RunStatus::ALL.into_iter().map(RunStatus::as_str).collect();
        ApiError::parameter("status", format!("must be statuses with commas between: {}", allowed.join(", ")))
    })
}

fn id<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    given: Option<&str>,
) -> Result<Option<T>, ApiError> {
    let id = given.map(str::parse::<T>).transpose();
    id.map_err(|error| ApiError::parameter(name, error.to_string()))
}

/// The filter of the store.
pub(crate) fn stored(filter: RunsFilter) -> RunFilter {
    RunFilter {
        statuses: filter.status,
        kind: filter.kind,
        agent: filter.agent_id,
        user: filter.user_id,
        error_code: filter.error_code,
        fingerprint: filter.fingerprint,
        since: filter.since.map(|time| clamped(time.0)),
        until: filter.until.map(|time| clamped(time.0)),
        is_not_cancelled: false,
    }
}
