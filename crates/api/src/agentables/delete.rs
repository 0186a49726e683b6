//! `DELETE /v1/{kinds}/{id}`: erases an agentable of any kind with its tasks and everything that belongs to them. From
//! the 202 on it is not found; workers delete the rows in the background, and the erasure reports the progress. Copies
//! (`fork`), messages sent to a parent or to the user's own agent, and memories are not erased.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_store::erasure::Target;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::erasures::request;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/{kinds}/{id}" => delete,
    tag = "agentables",
    operation_id = "delete_agentable",
    summary = "Erase an agentable with its tasks and everything that belongs to them.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses((status = 202, description = "The agentable is no longer found; its rows are deleted in the background.", body = houston_protocol::erasure::ErasureResponse)),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<Response, ApiError> {
    request(&app, caller, Target::Agentable(&path.kind, path.id)).await
}
