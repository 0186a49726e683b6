//! `POST /v1/plans/{id}/cancel`: requests the cancellation of a plan and of its executors. Idempotent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use super::PlanPath;
use crate::agentables::cancel::notify_workers;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    CANCEL: post "/v1/plans/{id}/cancel" => cancel,
    tag = "plans",
    operation_id = "cancel_plan",
    summary = "Cancel a plan and its executors. What they did stays done.",
    params(("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan.")),
    responses(
        (status = 202, description = "The runs whose cancellation was requested.", body = houston_protocol::run::CancelledRunsResponse)
    ),
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<impl IntoResponse, ApiError> {
    let plan = app.store(caller).plan(id).await?;
    let cancelled = app.store(caller).cancel_agentable(&plan.kind, id, false).await?;
    Ok((StatusCode::ACCEPTED, Json(notify_workers(&app, cancelled))))
}
