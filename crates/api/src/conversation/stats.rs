//! `GET /v1/{kinds}/{id}/stats`: statistics of a conversation, over its latest runs and messages if it is long.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    STATS: get "/v1/{kinds}/{id}/stats" => stats,
    tag = "conversations",
    operation_id = "get_statistics",
    summary = "Get statistics of a conversation.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The statistics.", body = houston_protocol::schema::Statistics)
    ),
}

pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let bounds = app.state.config.conversation.bounds();
    Ok(Json(app.store(caller).statistics(path.id, bounds).await?))
}
