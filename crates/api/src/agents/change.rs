//! `PATCH /v1/agents/{id}`: what is given changes, the rest stays; with `version`, only if nobody changed it since.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AgentId;
use houston_protocol::agent::{AgentResponse, AgentSettingsRequest};
use houston_protocol::schema;
use houston_store::agent::{Agent, AgentChange, Changed};

use super::body;
use super::{name_of_kind, name_taken, response, until_changed};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    patch,
    path = "/v1/agents/{id}",
    tag = "agents",
    operation_id = "update_agent",
    summary = "Changes an agent",
    params(
        ("id" = schema::AgentId, Path)
    ),
    request_body = AgentSettingsRequest,
    responses(
        (status = 200, description = "The agent", body = AgentResponse),
        (status = 409, description = "`already_exists`, `stale_version`")
    ),
)]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: body, key: _ }: Creation<AgentSettingsRequest>,
) -> Result<impl IntoResponse, ApiError> {
    if body.kind.is_some() {
        return Err(ApiError::field("/kind", "cannot be changed: make an agent of the other kind"));
    }
    if body::is_empty(&body) {
        let told = "nothing changes: give at least one of name, description, role, guidelines, tools, use_case, \
                    provider, model, limits, enabled";
        return Err(ApiError::field("", told));
    }
    let version = body.version;
    let changed = until_changed(version, || apply(&app, caller, id, body.clone())).await?;
    Ok(Json(response(changed)))
}

/// Changes the agent as it stands now.
async fn apply(
    app: &App,
    caller: Caller,
    id: AgentId,
    mut body: AgentSettingsRequest,
) -> Result<Changed<Agent>, ApiError> {
    let agent = app.store().agent(caller.tenant, id).await?;
    let name = body.name.take();
    if let Some(name) = &name {
        body::check_name(name)?;
        if is_kept(app, &agent, name) {
            return Err(name_of_kind(app, caller.tenant, name).await);
        }
    }
    // What is set goes by what was read here: changed meanwhile, it would be lost.
    let version = Some(body.version.unwrap_or(agent.version));
    let enabled = body.enabled;
    let changed = agent.changed || body::touches_file(&body);
    let settings = match app.state.agent_types.get(&agent.kind) {
        _ if !body::touches_settings(&body) => None,
        Some(kind) => Some(body::apply(body, agent.settings, kind, &app.state.agents)?),
        None => {
            let told = format!("of a kind this server does not know: `{}`", agent.kind);
            return Err(ApiError::field("", told));
        }
    };
    let change =
        AgentChange { name: name.as_deref(), enabled, settings: settings.as_ref(), changed, version };
    app.store().change_agent(caller.tenant, id, &change).await.map_err(name_taken)
}

/// Whether the name is kept for another: those of kinds are those of the default agents.
fn is_kept(app: &App, agent: &Agent, name: &str) -> bool {
    let own = agent.is_default && agent.kind == name;
    !own && app.state.agent_types.contains_key(name)
}
