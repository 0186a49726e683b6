//! `POST /v1/plans/{id}/pause` and `…/resume`. Both are idempotent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_protocol::plan::PlanResponse;

use super::{PlanPath, listed, refused, tell};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    PAUSE: post "/v1/plans/{id}/pause" => pause,
    tag = "plans",
    operation_id = "pause_plan",
    summary = "Pause a plan: nothing new starts, and what runs ends. Its deadline stays.",
    params(("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan.")),
    responses(
        (status = 200, description = "The plan.", body = PlanResponse),
        (status = 409, description = "`invalid_state`: it has ended.")
    ),
}

pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<Json<PlanResponse>, ApiError> {
    set(&app, caller, PlanPath(id), true).await
}

endpoint! {
    RESUME: post "/v1/plans/{id}/resume" => resume,
    tag = "plans",
    operation_id = "resume_plan",
    summary = "Let a paused plan go on.",
    params(("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan.")),
    responses(
        (status = 200, description = "The plan.", body = PlanResponse),
        (status = 409, description = "`invalid_state`: it has ended.")
    ),
}

pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<Json<PlanResponse>, ApiError> {
    set(&app, caller, PlanPath(id), false).await
}

async fn set(
    app: &App,
    caller: Caller,
    PlanPath(id): PlanPath,
    paused: bool,
) -> Result<Json<PlanResponse>, ApiError> {
    let plan = app.store(caller).plan(id).await?;
    let done = app.store(caller).pause_plan(id, paused).await?;
    done.map_err(|refusal| refused(refusal, |()| super::NOT_FOUND))?;
    tell(app, &plan);
    listed(app, caller, id).await
}
