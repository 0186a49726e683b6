//! `DELETE /v1/{kinds}/{id}`: erases an agentable of any kind with its tasks and everything of theirs. 202: from now on
//! nobody finds it; workers delete the rows, and the erasure says how far they are. What others know of it stays with
//! them: copies (`fork`), what was told to a parent or to the user's own agent, memories.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_protocol::erasure::ErasureResponse;
use houston_protocol::schema;
use houston_store::erasure::Target;

use crate::auth::Caller;
use crate::erasures::request;
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/{kinds}/{id}",
    tag = "agentables",
    operation_id = "delete_agentable",
    summary = "Erases an agentable with its tasks and everything of theirs",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses((status = 202, description = "Nobody finds it any more; the erasure goes on", body = ErasureResponse)),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<Response, ApiError> {
    request(&app, caller, Target::Agentable(&place.kind, place.id)).await
}
