//! `PATCH /v1/agents/{id}`: changes the given fields; with `version`, only if the agent still has that version.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AgentId;
use houston_protocol::agent::AgentSettingsRequest;
use houston_store::agent::{Agent, AgentChange, Changed};

use super::body;
use super::{name_taken, reserved_name, response, retry_on_conflict};
use crate::agentable_path::Id;
use crate::agentables::tools::with_own;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::models::sampling::check_agent;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/agents/{id}" => change,
    tag = "agents",
    operation_id = "update_agent",
    summary = "Change an agent; fields not given stay as they are.",
    params(
        ("id" = houston_protocol::schema::AgentId, Path, description = "Id of the agent.")
    ),
    request_body = AgentSettingsRequest,
    responses(
        (status = 200, description = "The changed agent.", body = houston_protocol::agent::AgentResponse),
        (status = 409, description = "`already_exists`: another agent has the name; `stale_version`: the agent has another version.")
    ),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
    Change(body): Change<AgentSettingsRequest>,
) -> Result<impl IntoResponse, ApiError> {
    if body.kind.is_some() {
        return Err(ApiError::field("/kind", "cannot be changed; create an agent of the other kind"));
    }
    if body::is_empty(&body) {
        let detail = "nothing to change: give at least one of name, description, role, guidelines, tools, use_case, \
                    provider, model, limits, enabled";
        return Err(ApiError::field("", detail));
    }
    let version = body.version;
    let changed = retry_on_conflict(version, || apply(&app, caller, id, body.clone())).await?;
    Ok(Json(response(changed)))
}

/// Reads the agent, applies the change and writes it if the version is unchanged.
async fn apply(
    app: &App,
    caller: Caller,
    id: AgentId,
    mut body: AgentSettingsRequest,
) -> Result<Changed<Agent>, ApiError> {
    let agent = app.store(caller).agent(id).await?;
    let name = body.name.take();
    if let Some(name) = &name {
        body::check_name(name)?;
        if is_reserved(app, &agent, name) {
            return Err(reserved_name(app, caller, name).await);
        }
    }
    // The new settings are computed from what was read above: a concurrent change must not be overwritten.
    let version = Some(body.version.unwrap_or(agent.version));
    let enabled = body.enabled;
    let changed = agent.changed || body::changes_file_settings(&body);
    let settings = match app.state.agent_types.get(&agent.kind) {
        _ if !body::changes_settings(&body) => None,
        Some(kind) => {
            let kind = with_own(app, caller, kind, body.tools.as_deref()).await?;
            let settings = body::apply(body, agent.settings, &kind, &app.state.agents)?;
            check_agent(app, &settings, |setting| format!("/sampling/{setting}")).await?;
            Some(settings)
        }
        None => {
            let detail =
                format!("this server has no kind `{}`, so the agent cannot be changed here", agent.kind);
            return Err(ApiError::field("", detail));
        }
    };
    let change =
        AgentChange { name: name.as_deref(), enabled, settings: settings.as_ref(), changed, version };
    app.store(caller).change_agent(id, &change).await.map_err(name_taken)
}

/// Whether `name` is the name of a kind, and so reserved for the default agent of that kind.
fn is_reserved(app: &App, agent: &Agent, name: &str) -> bool {
    let own = agent.is_default && agent.kind == name;
    !own && app.state.agent_types.contains_key(name)
}
