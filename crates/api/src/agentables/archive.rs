//! `POST /v1/{kinds}/{id}/archive` and `…/unarchive`. Archiving cancels the open run and all tasks below, and deletes
//! the check-ins. Only for kinds that have the status `archived`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::agentable::AgentableResponse;
use houston_store::cancel::ARCHIVED;

use crate::agentable_path::AgentablePath;
use crate::agentables::cancel::notify_workers;
use crate::agentables::responses;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    ARCHIVE: post "/v1/{kinds}/{id}/archive" => archive,
    tag = "agentables",
    operation_id = "archive_agentable",
    summary = "Archive an agentable: cancel its run and its tasks, and delete its check-ins.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The agentable after the change.", body = AgentableResponse),
        (status = 409, description = "`not_archivable`: the kind has no status `archived`.")
    ),
}

pub(crate) async fn archive(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    check_archivable(&app, &path)?;
    let cancelled = app.store(caller).cancel_agentable(&path.kind, path.id, true).await?;
    notify_workers(&app, cancelled);
    read(&app, caller, &path).await
}

endpoint! {
    UNARCHIVE: post "/v1/{kinds}/{id}/unarchive" => unarchive,
    tag = "agentables",
    operation_id = "unarchive_agentable",
    summary = "Take an agentable out of the archive.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The agentable after the change.", body = AgentableResponse),
        (status = 409, description = "`not_archivable`: the kind has no status `archived`.")
    ),
}

pub(crate) async fn unarchive(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    check_archivable(&app, &path)?;
    app.store(caller).unarchive(&path.kind, path.id).await?;
    read(&app, caller, &path).await
}

fn check_archivable(app: &App, path: &AgentablePath) -> Result<(), ApiError> {
    let kind = app.state.agent_types.get(&path.kind);
    if kind.is_some_and(|kind| kind.statuses.iter().any(|status| status == ARCHIVED)) {
        return Ok(());
    }
    Err(ApiError::NotArchivable { kind: path.kind.clone() })
}

async fn read(app: &App, caller: Caller, path: &AgentablePath) -> Result<Json<AgentableResponse>, ApiError> {
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    // `responses` returns one response per agentable.
    let response = responses(app, caller, vec![agentable]).await?.pop();
    response.map(Json).ok_or(ApiError::NotFound { what: "agentable" })
}
