//! `GET /v1/{kinds}/{id}/stats`: a conversation in numbers; of a long one, those of its latest runs and messages.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::schema;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/stats",
    tag = "conversations",
    operation_id = "get_statistics",
    summary = "A conversation in numbers",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The numbers", body = schema::Statistics)
    ),
)]
pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &place).await?;
    let bounds = app.state.config.conversation.bounds();
    Ok(Json(app.store().statistics(caller.tenant, place.id, bounds).await?))
}
