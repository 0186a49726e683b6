//! `POST /v1/{kinds}/{id}/cancel`: asks its open run to stop, and those of all its tasks, at any depth. Asking twice
//! is asking once; where nothing is open, nothing happens.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_protocol::run::{CancelledRunResponse, CancelledRunsResponse};
use houston_protocol::schema;
use houston_store::cancel::Asked;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::{Owner, AgentablePath};
use crate::state::App;

/// Tells the workers that drive these runs to stop, ahead of what Postgres tells them.
pub(crate) fn stop(app: &App, asked: Vec<Asked>) -> CancelledRunsResponse {
    for one in &asked {
        app.cancel(one.agentable, one.run);
        app.ring(one.agentable, app.urgency(&one.kind));
    }
    let response = |one: Asked| CancelledRunResponse {
        run_id: one.run,
        owner: Owner { kind: one.kind, id: one.agentable },
    };
    CancelledRunsResponse { data: asked.into_iter().map(response).collect() }
}

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/cancel",
    tag = "agentables",
    operation_id = "cancel_agentable",
    summary = "Asks its open run to stop, and those of its tasks",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 202, description = "The runs that were asked", body = CancelledRunsResponse)
    ),
)]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    let asked = app.store().cancel_agentable(caller.tenant, &place.kind, place.id, false).await?;
    Ok((StatusCode::ACCEPTED, Json(stop(&app, asked))))
}
