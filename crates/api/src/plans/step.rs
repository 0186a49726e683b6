//! `POST /v1/plans/{id}/steps/{path}/retry` and `…/skip`: what people do to single steps.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::plan::{ByHandError, Document, States, repeat, skip as skip_step};
use houston_protocol::plan::PlanResponse;
use houston_store::plan::StepsChange;

use super::{PlanPath, StepPath, listed, refused, tell};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    RETRY: post "/v1/plans/{id}/steps/{path}/retry" => retry,
    tag = "plans",
    operation_id = "retry_plan_step",
    summary = "Repeat a step that failed or was cancelled, with the steps that were skipped because of it; or do not wait for its next attempt.",
    params(
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan."),
        ("path" = String, Path, description = "Path of the step.", example = "each[2].read")
    ),
    responses(
        (status = 200, description = "The plan.", body = PlanResponse),
        (status = 409, description = "`invalid_state`: the plan has ended. `invalid_step_status`: the step did not fail.")
    ),
}

pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    caller: Caller,
    plan: PlanPath,
    StepPath(path): StepPath,
) -> Result<Json<PlanResponse>, ApiError> {
    let now = app.now();
    change(&app, caller, plan, |document, states| repeat(document, states, &path, now)).await
}

endpoint! {
    SKIP: post "/v1/plans/{id}/steps/{path}/skip" => skip,
    tag = "plans",
    operation_id = "skip_plan_step",
    summary = "Skip a step that does not run and has no result: the plan goes on as if it were not needed.",
    params(
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan."),
        ("path" = String, Path, description = "Path of the step.", example = "each[2].read")
    ),
    responses(
        (status = 200, description = "The plan.", body = PlanResponse),
        (status = 409, description = "`invalid_state`: the plan has ended. `invalid_step_status`: the step runs, or has a result.")
    ),
}

pub(crate) async fn skip(
    State(app): State<Arc<App>>,
    caller: Caller,
    plan: PlanPath,
    StepPath(path): StepPath,
) -> Result<Json<PlanResponse>, ApiError> {
    change(&app, caller, plan, |document, states| skip_step(document, states, &path)).await
}

async fn change(
    app: &App,
    caller: Caller,
    PlanPath(id): PlanPath,
    rule: impl Fn(&Document, &States) -> Result<StepsChange, ByHandError>,
) -> Result<Json<PlanResponse>, ApiError> {
    let plan = app.store(caller).plan(id).await?;
    let done = app.store(caller).change_plan_steps(id, rule).await?;
    done.map_err(|refusal| {
        refused(refusal, |error| match error {
            ByHandError::Unknown => ApiError::NotFound { what: "step of the plan" },
            ByHandError::Status(reason) => ApiError::InvalidStepStatus(reason),
        })
    })?;
    tell(app, &plan);
    listed(app, caller, id).await
}
