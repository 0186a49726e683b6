//! `GET /v1/agents/{id}`: one agent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AgentId;
use houston_protocol::agent::AgentResponse;
use houston_protocol::schema;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/agents/{id}",
    tag = "agents",
    operation_id = "get_agent",
    summary = "Get an agent.",
    params(
        ("id" = schema::AgentId, Path, description = "Id of the agent.")
    ),
    responses(
        (status = 200, description = "The agent.", body = AgentResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).agent(id).await?)))
}
