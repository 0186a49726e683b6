//! `GET /v1/workers`: all registered workers, the oldest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::worker::WorkersResponse;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::missing_cells::across;
use crate::state::App;
use crate::workers::response;

endpoint! {
    LIST: get "/v1/workers" => list,
    tag = "operate",
    operation_id = "list_workers",
    summary = "List the workers of the installation, at most 1,000.",
    description = "Needs the scope `installation` besides `operate`.",
    responses((status = 200, description = "The registered workers, the oldest first.", body = WorkersResponse)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    let ask = |cell: Arc<App>| async move { Ok(cell.api_store().list_workers().await?) };
    let (found, missing) = across(&app, ask).await?;
    let data = found.into_iter().flatten().map(response).collect();
    Ok((missing, Json(WorkersResponse { data })))
}
