//! `POST /v1/{kinds}/{id}/reset`: closes the session, so that the model starts with an empty history. Thread and closed
//! session keep everything.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::conversation::{ResetConversation, ResetConversationResponse};

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::OptionalBody;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    RESET: post "/v1/{kinds}/{id}/reset" => reset,
    tag = "conversations",
    operation_id = "reset_conversation",
    summary = "Close the session, so that the next message starts with an empty history.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = Option<ResetConversation>,
    responses(
        (status = 200, description = "The number of closed entries and deleted items.", body = ResetConversationResponse),
        (status = 409, description = "`run_in_progress`: a run is open.")
    ),
}

pub(crate) async fn reset(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    OptionalBody(request): OptionalBody<ResetConversation>,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let session = app.state.ids.beside(path.id);
    let done = app.store(caller).reset(path.id, request.value.knowledge, session).await;
    let done = done.map_err(|error| match error {
        houston_store::Error::RunInProgress { run } => ApiError::RunInProgress { run },
        error => error.into(),
    })?;
    Ok(Json(ResetConversationResponse {
        id: path.public_id(),
        closed_entries: done.closed_entries,
        deleted_notes: done.notes,
        deleted_learnings: done.learnings,
        deleted_files: done.files,
    }))
}
