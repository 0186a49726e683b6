//! `GET /v1/{kinds}/{id}/state`: its lock, its run, what it waits for, and what that means.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use houston_protocol::schema;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/state",
    tag = "insight",
    operation_id = "get_state",
    summary = "The runtime state, with a diagnosis",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The state", body = schema::RuntimeState)
    ),
)]
pub(crate) async fn state(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<Response, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let mut state = app.store().state(caller.tenant, place.id).await?;
    if let Some(holder) = &mut state.holder {
        // The names of machines are for who runs them.
        holder.name = None;
    }
    let kind = app.state.agent_types.get(&place.kind);
    let status = kind.and_then(|kind| kind.status(agentable.status.as_deref(), agentable.run_status));
    Ok(Json(state.shown(&place.kind, place.id, status)).into_response())
}
