//! `PUT /v1/guards`, and the same of users, agents and agentables: replaces what agents may do with their tools.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::guard::GuardSettings;
use houston_domain::id::{AgentId, UserId};
use houston_protocol::schema;
use houston_store::guards::GuardOwner;

use super::{Given, check};
use crate::agentable_path::{AgentablePath, Id};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::state::App;

/// `PUT /v1/guards`: replaces the guards of the tenant.
#[utoipa::path(
    put,
    path = "/v1/guards",
    tag = "guards",
    operation_id = "set_guards_of_tenant",
    summary = "Replace the guards of the tenant; `{}` removes them. They can only tighten what the layers above allow.",
    request_body = schema::Guards,
    responses((status = 200, description = "The new guards.", body = schema::Guards)),
)]
pub(crate) async fn of_tenant(
    State(app): State<Arc<App>>,
    caller: Caller,
    // A PUT is idempotent, so the Idempotency-Key is ignored.
    Creation { value: Given(value), key: _ }: Creation<Given>,
) -> Result<Json<GuardSettings>, ApiError> {
    write(&app, caller, app.store(caller).guard_owner(), value).await
}

/// `PUT /v1/users/{id}/guards`: replaces the guards of a user.
#[utoipa::path(
    put,
    path = "/v1/users/{id}/guards",
    tag = "guards",
    operation_id = "set_guards_of_user",
    summary = "Replace the guards of a user; `{}` removes them. They can only tighten what the layers above allow.",
    params(("id" = schema::UserId, Path, description = "Id of the user.")),
    request_body = schema::Guards,
    responses((status = 200, description = "The new guards.", body = schema::Guards)),
)]
pub(crate) async fn of_user(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
    // A PUT is idempotent, so the Idempotency-Key is ignored.
    Creation { value: Given(value), key: _ }: Creation<Given>,
) -> Result<Json<GuardSettings>, ApiError> {
    write(&app, caller, GuardOwner::User(id), value).await
}

/// `PUT /v1/agents/{id}/guards`: replaces the guards of an agent.
#[utoipa::path(
    put,
    path = "/v1/agents/{id}/guards",
    tag = "guards",
    operation_id = "set_guards_of_agent",
    summary = "Replace the guards of an agent; `{}` removes them. They can only tighten what the layers above allow.",
    params(("id" = schema::AgentId, Path, description = "Id of the agent.")),
    request_body = schema::Guards,
    responses((status = 200, description = "The new guards.", body = schema::Guards)),
)]
pub(crate) async fn of_agent(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
    // A PUT is idempotent, so the Idempotency-Key is ignored.
    Creation { value: Given(value), key: _ }: Creation<Given>,
) -> Result<Json<GuardSettings>, ApiError> {
    write(&app, caller, GuardOwner::Agent(id), value).await
}

/// `PUT /v1/{kinds}/{id}/guards`: replaces the guards of an agentable and its tasks.
#[utoipa::path(
    put,
    path = "/v1/{kinds}/{id}/guards",
    tag = "guards",
    operation_id = "set_guards_of_agentable",
    summary = "Replace the guards of an agentable and its tasks; `{}` removes them. They can only tighten what the layers above allow.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = schema::Guards,
    responses((status = 200, description = "The new guards.", body = schema::Guards)),
)]
pub(crate) async fn of_agentable(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    // A PUT is idempotent, so the Idempotency-Key is ignored.
    Creation { value: Given(value), key: _ }: Creation<Given>,
) -> Result<Json<GuardSettings>, ApiError> {
    app.confirm(caller, &path).await?;
    write(&app, caller, GuardOwner::Agentable(path.id), value).await
}

async fn write(
    app: &App,
    caller: Caller,
    owner: GuardOwner,
    guards: GuardSettings,
) -> Result<Json<GuardSettings>, ApiError> {
    let guards = check(app, owner, guards).await?;
    let stored = (!guards.is_empty()).then_some(&guards);
    app.store(caller).set_guards(owner, stored).await?;
    Ok(Json(guards))
}
