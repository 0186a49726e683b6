//! `GET /v1/runs/{id}`: one run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_protocol::run::RunResponse;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::runs::response;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/runs/{id}",
    tag = "runs",
    operation_id = "get_run",
    summary = "Get a run.",
    params(
        ("id" = schema::RunId, Path, description = "Id of the run.")
    ),
    responses(
        (status = 200, description = "The run.", body = RunResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).run(id).await?)))
}
