//! `PATCH /v1/agents/{id}`: what is given changes, the rest stays; with `version`, only if nobody changed it since.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AgentId;
use houston_store::agent::{Agent, AgentChange, Changed};

use super::body::Body;
use super::{Shown, name_taken, until_changed};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: body, key: _ }: Creation<Body>,
) -> Result<impl IntoResponse, ApiError> {
    if body.kind.is_some() {
        return Err(ApiError::field("/kind", "cannot be changed: make an agent of the other kind"));
    }
    if body.is_empty() {
        let told = "nothing changes: give at least one of name, description, role, guidelines, tools, use_case, \
                    provider, model, limits, enabled";
        return Err(ApiError::field("", told));
    }
    let version = body.version;
    let changed = until_changed(version, || apply(&app, caller, id, body.clone())).await?;
    Ok(Json(Shown::from(changed)))
}

/// Changes the agent as it stands now.
async fn apply(app: &App, caller: Caller, id: AgentId, mut body: Body) -> Result<Changed<Agent>, ApiError> {
    let agent = app.store().agent(caller.tenant, id).await?;
    let name = body.name.take();
    if let Some(name) = &name {
        Body::check_name(name)?;
        check_free(app, &agent, name)?;
    }
    // What is set goes by what was read here: changed meanwhile, it would be lost.
    let version = Some(body.version.unwrap_or(agent.version));
    let enabled = body.enabled;
    let changed = agent.changed || body.touches_file();
    let settings = match app.state.agent_types.get(&agent.kind) {
        _ if !body.touches_settings() => None,
        Some(kind) => Some(body.apply(agent.settings, kind, &app.state.agents)?),
        None => {
            let told = format!("of a kind this server does not know: `{}`", agent.kind);
            return Err(ApiError::field("", told));
        }
    };
    let change =
        AgentChange { name: name.as_deref(), enabled, settings: settings.as_ref(), changed, version };
    app.store().change_agent(caller.tenant, id, &change).await.map_err(name_taken)
}

/// The names of kinds are those of the default agents.
fn check_free(app: &App, agent: &Agent, name: &str) -> Result<(), ApiError> {
    let own = agent.is_default && agent.kind == name;
    if !own && app.state.agent_types.contains_key(name) {
        return Err(ApiError::AlreadyExists { what: "agent", field: "name" });
    }
    Ok(())
}
