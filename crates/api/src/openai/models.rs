//! `/compat/openai/v1/models`: what a request may name as `model`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use houston_protocol::openai::list::{List, Model};

use super::begin::target;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;
use crate::threads::Asker;

/// The most agents that are listed, newest first; others can be named all the same.
const MAX_AGENTS: i64 = 200;

async fn models(app: &App, caller: Caller) -> Result<Vec<Model>, ApiError> {
    let types = app.state.agent_types.values();
    let talks = |kind: &str| app.state.agent_types.get(kind).is_some_and(|kind| kind.conversational);
    let kinds = types.filter(|kind| kind.conversational && (kind.user_creatable() || kind.made_with_user));
    let kinds =
        kinds.map(|kind| Model { id: kind.kind.clone(), object: "model", created: 0, owned_by: "houston" });
    let agents = app.store(caller).agents(None, MAX_AGENTS).await?;
    let agents = agents.into_iter().filter(|agent| agent.enabled && !agent.is_default && talks(&agent.kind));
    let agents = agents.map(|agent| Model {
        id: format!("agent/{}", agent.name),
        object: "model",
        created: agent.created_at.timestamp(),
        owned_by: "tenant",
    });
    Ok(kinds.chain(agents).collect())
}

/// `GET /models`.
pub(super) async fn list(State(app): State<Arc<App>>, asker: Asker) -> Result<Response, ApiError> {
    let models = models(&app, asker.caller()).await?;
    Ok(Json(List::new(models, false, |model: &Model| model.id.clone())).into_response())
}

/// `GET /models/{id}`.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let models = models(&app, asker.caller()).await?;
    let found = models.into_iter().find(|model| target(&model.id) == target(&id));
    found.map(|model| Json(model).into_response()).ok_or(ApiError::NotFound { what: "model" })
}
