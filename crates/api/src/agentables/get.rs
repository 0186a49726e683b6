//! `GET /v1/{kinds}/{id}`: one agentable: a goal, a task, a user agent, …

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::agentable_path::AgentablePath;
use crate::agentables::responses;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/{kinds}/{id}" => get,
    tag = "agentables",
    operation_id = "get_agentable",
    summary = "Get an agentable.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The agentable.", body = houston_protocol::agentable::AgentableResponse)
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    // `responses` returns one response per agentable.
    let response = responses(&app, caller, vec![agentable]).await?.pop();
    response.map(Json).ok_or(ApiError::NotFound { what: "agentable" })
}
