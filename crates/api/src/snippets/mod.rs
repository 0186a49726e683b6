//! `/v1/users/{id}/snippets`: code that agents keep for a user. Agents write it; people read and delete it here.

pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::snippet;

use crate::agentable_path::params;
use crate::error::ApiError;

/// Extracts `name` from the path of the request. No snippet has a name that is not one of a snippet.
#[derive(Debug, Clone)]
pub(crate) struct SnippetName(String);

impl<S: Send + Sync> FromRequestParts<S> for SnippetName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "snippet" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let name = params.iter().find(|(param, _)| *param == "name").map(|(_, name)| name.to_owned());
        name.filter(|name| snippet::check_name(name).is_ok()).map(Self).ok_or(NOT_FOUND)
    }
}
