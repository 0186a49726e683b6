//! `GET /v1/{kinds}/{id}/stats`: statistics of a conversation, over its latest runs and messages if it is long.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::schema;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/stats",
    tag = "conversations",
    operation_id = "get_statistics",
    summary = "Get statistics of a conversation.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The statistics.", body = schema::Statistics)
    ),
)]
pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let bounds = app.state.config.conversation.bounds();
    Ok(Json(app.store(caller).statistics(path.id, bounds).await?))
}
