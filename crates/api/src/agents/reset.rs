//! `POST /v1/agents/{id}/reset`: restores a default agent from the file of its kind, which is read again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::AgentId;
use houston_store::agent::AgentChange;

use super::{name_taken, read_files, response, retry_on_conflict};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    RESET: post "/v1/agents/{id}/reset" => reset,
    tag = "agents",
    operation_id = "reset_agent",
    summary = "Restore a default agent from the file of its kind.",
    params(
        ("id" = houston_protocol::schema::AgentId, Path, description = "Id of the agent.")
    ),
    responses(
        (status = 200, description = "The restored agent.", body = houston_protocol::agent::AgentResponse),
        (status = 409, description = "`no_default_agent`: only default agents have a file; `unreadable_files`: jobs/agents cannot be read.")
    ),
}

pub(crate) async fn reset(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<impl IntoResponse, ApiError> {
    let agent = app.store(caller).agent(id).await?;
    if !agent.is_default {
        return Err(ApiError::NoDefaultAgent { name: agent.name });
    }
    let files = read_files(&app)?;
    let kind = files.get(&agent.kind).ok_or_else(|| ApiError::UnreadableFiles {
        reason: format!("there is no {}.toml any more", agent.kind),
    })?;
    // The file does not have the guards of an agent.
    let settings = AgentSettings { guards: agent.settings.guards, ..AgentSettings::of(kind) };
    let change = AgentChange {
        name: Some(&agent.kind),
        enabled: Some(true),
        settings: Some(&settings),
        changed: false,
        version: None,
    };
    let reset = || async { app.store(caller).change_agent(id, &change).await.map_err(name_taken) };
    Ok(Json(response(retry_on_conflict(None, reset).await?)))
}
