//! `POST /v1/{kinds}/{id}/reset`: its model begins anew. What was said stays in the thread and in the closed session.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::conversation::{ResetConversation, ResetConversationResponse};
use houston_protocol::schema;

use crate::auth::Caller;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/reset",
    tag = "conversations",
    operation_id = "reset_conversation",
    summary = "Begins a new session with an empty context",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    request_body = Option<ResetConversation>,
    responses(
        (status = 200, description = "What was emptied", body = ResetConversationResponse),
        (status = 409, description = "`run_open`")
    ),
)]
pub(crate) async fn reset(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    OptionalBody(request): OptionalBody<ResetConversation>,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &place).await?;
    let done =
        app.store().reset(caller.tenant, place.id, request.value.knowledge, app.state.ids.next()).await;
    let done = done.map_err(|error| match error {
        houston_store::Error::RunInProgress { run } => ApiError::RunInProgress { run },
        error => error.into(),
    })?;
    Ok(Json(ResetConversationResponse {
        id: place.shown(),
        closed_entries: done.closed_entries,
        deleted_notes: done.notes,
        deleted_learnings: done.learnings,
    }))
}
