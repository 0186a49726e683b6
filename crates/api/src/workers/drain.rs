//! `POST /v1/workers/{id}/drain`: asks a worker process to drain, as SIGTERM does.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::WorkerId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::workers::response;

endpoint! {
    DRAIN: post "/v1/workers/{id}/drain" => drain,
    tag = "operate",
    operation_id = "drain_worker",
    summary = "Ask a worker to drain.",
    description = "As after SIGTERM, its process claims nothing new, its runs finish their step or are handed over, and it ends within \
                   the drain time (`worker.drain_s`); that of `houston dev` goes on as a server. It reads the request within a second. \
                   Idempotent; it cannot be taken back. Needs the scope `installation` besides `operate`.",
    params(("id" = houston_protocol::schema::WorkerId, Path, description = "Id of the worker.")),
    responses((status = 202, description = "The worker was asked, now or before.", body = houston_protocol::worker::WorkerResponse)),
}

pub(crate) async fn drain(
    State(app): State<Arc<App>>,
    _caller: Caller,
    Id(id): Id<WorkerId>,
) -> Result<impl IntoResponse, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound { what: "worker" };
    for cell in app.all_cells() {
        match cell.api_store().drain_worker(id).await {
            Err(houston_store::Error::NotFound { .. }) => {}
            asked => {
                asked?;
                let workers = cell.api_store().list_workers().await?;
                let found = workers.into_iter().find(|worker| worker.id == id).ok_or(NOT_FOUND)?;
                return Ok((StatusCode::ACCEPTED, Json(response(found))));
            }
        }
    }
    Err(NOT_FOUND)
}
