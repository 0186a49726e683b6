//! `GET /v1/runs/{id}/model_calls`: usage and cost of each model call of a run, however it ended.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_protocol::run::{ModelCallResponse, ModelCallsResponse};
use houston_protocol::time::Time;
use houston_store::cost::StoredModelCall;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

fn response(StoredModelCall { call, at }: StoredModelCall) -> ModelCallResponse {
    let cost = call.usage.cost.map(|cost| cost.normalize());
    ModelCallResponse {
        iteration: call.iteration,
        provider: call.provider,
        model: call.model,
        usage: Usage { cost: None, ..call.usage },
        cost,
        cost_source: cost.map(|_| if call.reported { "provider" } else { "list" }.to_owned()),
        estimated: call.estimated,
        created_at: Time(at),
    }
}

endpoint! {
    CALLS: get "/v1/runs/{id}/model_calls" => calls,
    tag = "runs",
    operation_id = "list_model_calls",
    summary = "List the model calls of a run with usage and cost.",
    params(
        ("id" = houston_protocol::schema::RunId, Path, description = "Id of the run.")
    ),
    responses(
        (status = 200, description = "The model calls.", body = ModelCallsResponse)
    ),
}

pub(crate) async fn calls(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let calls = app.store(caller).model_calls(id).await?;
    Ok(Json(ModelCallsResponse { data: calls.into_iter().map(response).collect() }))
}
