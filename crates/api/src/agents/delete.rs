//! `DELETE /v1/agents/{id}`. An agent in use cannot be deleted, because its agentables would be answered by an agent
//! their users did not choose. A default agent cannot be deleted either; it can be disabled or reset.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::AgentId;

use super::check_deleted;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/agents/{id}" => delete,
    tag = "agents",
    operation_id = "delete_agent",
    summary = "Delete an agent that is not in use.",
    params(
        ("id" = houston_protocol::schema::AgentId, Path, description = "Id of the agent.")
    ),
    responses(
        (status = 204, description = "The agent is deleted."),
        (status = 409, description = "`default_agent`: default agents cannot be deleted; `in_use`: an agentable or a team uses it.")
    ),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<StatusCode, ApiError> {
    let agent = app.store(caller).agent(id).await?;
    if agent.is_default {
        return Err(ApiError::DefaultAgent { kind: agent.kind });
    }
    check_deleted("agent", app.store(caller).delete_agent(id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}
