//! `GET /v1/guards`, and the same of users, agents and agentables: what agents may do with their tools.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::guard::GuardSettings;
use houston_domain::id::{AgentId, UserId};
use houston_protocol::schema;
use houston_store::guards::GuardOwner;

use crate::agentable_path::{AgentablePath, Id};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// `GET /v1/guards`: the guards of the tenant.
#[utoipa::path(
    get,
    path = "/v1/guards",
    tag = "guards",
    operation_id = "get_guards_of_tenant",
    summary = "Get the guards of the tenant; `{}`: there are none.",
    responses((status = 200, description = "The guards.", body = schema::Guards)),
)]
pub(crate) async fn of_tenant(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<GuardSettings>, ApiError> {
    read(&app, caller, app.store(caller).guard_owner()).await
}

/// `GET /v1/users/{id}/guards`: the guards of a user.
#[utoipa::path(
    get,
    path = "/v1/users/{id}/guards",
    tag = "guards",
    operation_id = "get_guards_of_user",
    summary = "Get the guards of a user; `{}`: there are none.",
    params(("id" = schema::UserId, Path, description = "Id of the user.")),
    responses((status = 200, description = "The guards.", body = schema::Guards)),
)]
pub(crate) async fn of_user(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<Json<GuardSettings>, ApiError> {
    read(&app, caller, GuardOwner::User(id)).await
}

/// `GET /v1/agents/{id}/guards`: the guards of an agent.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}/guards",
    tag = "guards",
    operation_id = "get_guards_of_agent",
    summary = "Get the guards of an agent; `{}`: there are none.",
    params(("id" = schema::AgentId, Path, description = "Id of the agent.")),
    responses((status = 200, description = "The guards.", body = schema::Guards)),
)]
pub(crate) async fn of_agent(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<Json<GuardSettings>, ApiError> {
    read(&app, caller, GuardOwner::Agent(id)).await
}

/// `GET /v1/{kinds}/{id}/guards`: the guards of an agentable and its tasks.
#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/guards",
    tag = "guards",
    operation_id = "get_guards_of_agentable",
    summary = "Get the guards of an agentable and its tasks; `{}`: there are none.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses((status = 200, description = "The guards.", body = schema::Guards)),
)]
pub(crate) async fn of_agentable(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<Json<GuardSettings>, ApiError> {
    app.confirm(caller, &path).await?;
    read(&app, caller, GuardOwner::Agentable(path.id)).await
}

async fn read(app: &App, caller: Caller, owner: GuardOwner) -> Result<Json<GuardSettings>, ApiError> {
    Ok(Json(app.store(caller).guards(owner).await?.unwrap_or_default()))
}
