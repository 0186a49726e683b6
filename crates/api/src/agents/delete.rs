//! `DELETE /v1/agents/{id}`. One in use stays: an agentable whose agent vanished would be answered by somebody its user
//! did not choose. A default one stays, too: something must answer; it can be disabled, or put back.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::AgentId;
use houston_protocol::schema;

use super::unless_used;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/agents/{id}",
    tag = "agents",
    operation_id = "delete_agent",
    summary = "Deletes an agent",
    params(
        ("id" = schema::AgentId, Path)
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 409, description = "`default_agent`, `in_use`")
    ),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<StatusCode, ApiError> {
    let agent = app.store().agent(caller.tenant, id).await?;
    if agent.is_default {
        return Err(ApiError::DefaultAgent { kind: agent.kind });
    }
    unless_used("agent", app.store().delete_agent(caller.tenant, id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}
