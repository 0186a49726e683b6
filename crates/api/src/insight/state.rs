//! `GET /v1/{kinds}/{id}/state`: the runtime state of an agentable: lock, run, pending work, and a diagnosis.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::insight::HIDDEN;
use crate::state::App;

endpoint! {
    STATE: get "/v1/{kinds}/{id}/state" => state,
    tag = "insight",
    operation_id = "get_state",
    summary = "Get the runtime state of an agentable, with a diagnosis.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The runtime state.", body = houston_protocol::schema::RuntimeState)
    ),
}

pub(crate) async fn state(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<Response, ApiError> {
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    let mut state = app.store(caller).state(path.id).await?;
    if let Some(holder) = &mut state.holder {
        // Host names are not for tenants.
        holder.name = None;
    }
    if let Some(error) = state.last_error.as_mut().filter(|_| !caller.reads_contents()) {
        HIDDEN.clone_into(&mut error.message);
    }
    let kind = app.state.agent_types.get(&path.kind);
    let status = kind.and_then(|kind| kind.status(agentable.status.as_deref(), agentable.run_status));
    Ok(Json(state.view(&path.kind, path.id, status)).into_response())
}
