//! `POST /v1/agents/{id}/reset`: a default agent says again what the file of its kind says, as it stands now.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::AgentId;
use houston_protocol::agent::AgentResponse;
use houston_protocol::schema;
use houston_store::agent::AgentChange;

use super::{name_taken, read_files, response, until_changed};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/agents/{id}/reset",
    tag = "agents",
    operation_id = "reset_agent",
    summary = "Sets a default agent back to its file",
    params(
        ("id" = schema::AgentId, Path)
    ),
    responses(
        (status = 200, description = "The agent", body = AgentResponse),
        (status = 409, description = "`no_default_agent`, `unreadable_files`")
    ),
)]
pub(crate) async fn reset(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<impl IntoResponse, ApiError> {
    let agent = app.store().agent(caller.tenant, id).await?;
    if !agent.is_default {
        return Err(ApiError::NoDefaultAgent { name: agent.name });
    }
    let files = read_files(&app)?;
    let kind = files.get(&agent.kind).ok_or_else(|| ApiError::UnreadableFiles {
        reason: format!("there is no {}.toml any more", agent.kind),
    })?;
    let settings = AgentSettings::of(kind);
    let change = AgentChange {
        name: Some(&agent.kind),
        enabled: Some(true),
        settings: Some(&settings),
        changed: false,
        version: None,
    };
    let reset = || async { app.store().change_agent(caller.tenant, id, &change).await.map_err(name_taken) };
    Ok(Json(response(until_changed(None, reset).await?)))
}
