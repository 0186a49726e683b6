//! `POST /v1/{kinds}/{id}/cancel`: requests the cancellation of the open run of an agentable and of the runs of all
//! tasks below it. Idempotent; without an open run it does nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_protocol::run::{CancelledRunResponse, CancelledRunsResponse};
use houston_store::cancel::CancelledRun;

use crate::agentable_path::{AgentablePath, Owner};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

/// Notifies the workers of `cancelled` runs over the bus and by hints, so that they need not wait for their next read
/// of Postgres. Returns the response body.
pub(crate) fn notify_workers(app: &App, cancelled: Vec<CancelledRun>) -> CancelledRunsResponse {
    for one in &cancelled {
        app.publish_cancel(one.agentable, one.run);
        app.send_hint(one.agentable, app.urgency(&one.kind));
    }
    let response = |one: CancelledRun| CancelledRunResponse {
        run_id: one.run,
        owner: Owner { kind: one.kind, id: one.agentable },
    };
    CancelledRunsResponse { data: cancelled.into_iter().map(response).collect() }
}

endpoint! {
    CANCEL: post "/v1/{kinds}/{id}/cancel" => cancel,
    tag = "agentables",
    operation_id = "cancel_agentable",
    summary = "Cancel the open run of an agentable and the runs of all its tasks.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 202, description = "The runs whose cancellation was requested.", body = CancelledRunsResponse)
    ),
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    let cancelled = app.store(caller).cancel_agentable(&path.kind, path.id, false).await?;
    Ok((StatusCode::ACCEPTED, Json(notify_workers(&app, cancelled))))
}
