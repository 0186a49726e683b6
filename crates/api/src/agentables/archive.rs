//! `POST /v1/{kinds}/{id}/archive`, `…/unarchive`: puts an agentable away, and takes it out again. What is put away is
//! cancelled with all its tasks, and its check-ins are taken back. Of kinds that have the status `archived`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::schema;
use houston_store::cancel::ARCHIVED;

use crate::agentables::cancel::stop;
use crate::agentables::response;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/archive",
    tag = "agentables",
    operation_id = "archive_agentable",
    summary = "Archives an agentable",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The agentable", body = AgentableResponse),
        (status = 409, description = "`not_archivable`")
    ),
)]
pub(crate) async fn archive(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    archivable(&app, &place)?;
    let asked = app.store().cancel_agentable(caller.tenant, &place.kind, place.id, true).await?;
    stop(&app, asked);
    shown(&app, caller, &place).await
}

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/unarchive",
    tag = "agentables",
    operation_id = "unarchive_agentable",
    summary = "Takes an agentable out of the archive",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The agentable", body = AgentableResponse),
        (status = 409, description = "`not_archivable`")
    ),
)]
pub(crate) async fn unarchive(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    archivable(&app, &place)?;
    app.store().unarchive(caller.tenant, &place.kind, place.id).await?;
    shown(&app, caller, &place).await
}

fn archivable(app: &App, place: &AgentablePath) -> Result<(), ApiError> {
    let kind = app.state.agent_types.get(&place.kind);
    if kind.is_some_and(|kind| kind.statuses.iter().any(|status| status == ARCHIVED)) {
        return Ok(());
    }
    Err(ApiError::NotArchivable { kind: place.kind.clone() })
}

async fn shown(app: &App, caller: Caller, place: &AgentablePath) -> Result<Json<AgentableResponse>, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    Ok(Json(response(agentable, app.state.agent_types.get(&place.kind))))
}
