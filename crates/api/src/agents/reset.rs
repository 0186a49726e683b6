//! `POST /v1/agents/{id}/reset`: a default agent says again what the file of its kind says, as it stands now.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::AgentId;
use houston_store::agent::AgentChange;

use super::{Shown, name_taken, read_files, until_changed};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

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
    Ok(Json(Shown::from(until_changed(None, reset).await?)))
}
