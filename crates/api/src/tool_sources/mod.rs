//! `/v1/endpoints`: a tenant's own HTTP endpoints as tools of its agents. A change applies from the next run on.

pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod put;

use std::collections::BTreeSet;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::tool_source::name_problem;
use houston_protocol::time::Time;
use houston_protocol::tool_source::EndpointsResponse;
use houston_store::tool_source::ToolSource;
use houston_web::json_api::{Loaded, from_document};

use crate::agentable_path::params;
use crate::error::ApiError;
use crate::state::App;

/// The name of a source in a path.
#[derive(Debug)]
pub(crate) struct SourceName(String);

impl<S: Send + Sync> FromRequestParts<S> for SourceName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let params = params(parts).ok_or(ApiError::NotFound { what: "tool source" })?;
        let name = params.iter().find(|(key, _)| *key == "name").map_or("", |(_, name)| name);
        match name_problem(name) {
            Some(problem) => {
                Err(ApiError::field("", format!("the name in the path is not allowed: {problem}")))
            }
            None => Ok(Self(name.to_owned())),
        }
    }
}

/// The response for a stored document.
async fn response(app: &App, source: ToolSource) -> Result<EndpointsResponse, ApiError> {
    // Reading a long document takes too long for a thread of the runtime.
    let read = move || {
        let loaded = from_document(&source.document, &source.name).unwrap_or_default();
        response_of(source, &loaded)
    };
    app.offload.compute(read).await
}

fn response_of(source: ToolSource, loaded: &Loaded) -> EndpointsResponse {
    let needed: BTreeSet<&String> = loaded
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.auth.iter().map(|auth| &auth.secret).chain(&endpoint.signed_with))
        .collect();
    let missing = needed.into_iter().filter(|name| !source.secret_names.contains(name));
    EndpointsResponse {
        missing_secrets: missing.cloned().collect(),
        skipped: loaded.skipped.iter().map(ToString::to_string).collect(),
        name: source.name,
        document: source.document,
        kinds: source.kinds,
        tools: source.tools,
        secrets: source.secret_names,
        created_at: Time(source.created_at),
        updated_at: Time(source.updated_at),
    }
}
