//! `GET /v1/plans/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_protocol::plan::PlanResponse;

use super::{PlanPath, listed};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/plans/{id}" => get,
    tag = "plans",
    operation_id = "get_plan",
    summary = "Get a plan: document, status, steps, and the questions that it asks.",
    params(("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan.")),
    responses((status = 200, description = "The plan.", body = PlanResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<Json<PlanResponse>, ApiError> {
    listed(&app, caller, id).await
}
