//! `GET /v1/{kinds}/{id}/shared-state`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::{NO_STATE, at};
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/{kinds}/{id}/shared-state" => get,
    tag = "agentables",
    operation_id = "get_shared_state",
    summary = "The state that an agentable shares with front ends: a JSON object that matches the schema of its kind.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The state.", body = BTreeMap<String, houston_protocol::schema::AnyJson>)
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    at(&app, caller, &path, i64::MAX).await?.map(Json).ok_or(NO_STATE)
}
