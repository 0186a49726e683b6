//! `POST /v1/{kinds}/{id}/archive`, `…/unarchive`: puts an agentable away, and takes it out again. What is put away is
//! cancelled with all its tasks, and its check-ins are taken back. Of kinds that have the status `archived`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::cancel::ARCHIVED;

use crate::agentables::Shown;
use crate::agentables::cancel::Stopping;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Place;
use crate::state::App;

pub(crate) async fn archive(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    archivable(&app, &place)?;
    let asked = app.store().cancel_agentable(caller.tenant, &place.kind, place.id, true).await?;
    Stopping::tell(&app, asked);
    shown(&app, caller, &place).await
}

pub(crate) async fn unarchive(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    archivable(&app, &place)?;
    app.store().unarchive(caller.tenant, &place.kind, place.id).await?;
    shown(&app, caller, &place).await
}

fn archivable(app: &App, place: &Place) -> Result<(), ApiError> {
    let kind = app.state.agent_types.get(&place.kind);
    if kind.is_some_and(|kind| kind.statuses.iter().any(|status| status == ARCHIVED)) {
        return Ok(());
    }
    Err(ApiError::NotArchivable { kind: place.kind.clone() })
}

async fn shown(app: &App, caller: Caller, place: &Place) -> Result<Json<Shown>, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    Ok(Json(Shown::new(agentable, app.state.agent_types.get(&place.kind))))
}
