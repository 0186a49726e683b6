//! `GET /v1/workers`: all registered workers, the oldest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::worker::WorkersResponse;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;
use crate::workers::response;

#[utoipa::path(
    get,
    path = "/v1/workers",
    tag = "operate",
    operation_id = "list_workers",
    summary = "List the workers of the installation, at most 1,000.",
    description = "Needs the scope `installation` besides `operate`.",
    responses((status = 200, description = "The registered workers, the oldest first.", body = WorkersResponse)),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    let mut data = Vec::new();
    for cell in app.all_cells() {
        data.extend(cell.api_store().list_workers().await?.into_iter().map(response));
    }
    Ok(Json(WorkersResponse { data }))
}
