//! `GET /v1/erasures/{id}`: one erasure and its progress.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::ErasureId;
use houston_protocol::erasure::ErasureResponse;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::erasures::response;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/erasures/{id}",
    tag = "erasures",
    operation_id = "get_erasure",
    summary = "Get an erasure and its progress.",
    params(("id" = schema::ErasureId, Path, description = "Id of the erasure.")),
    responses((status = 200, description = "The erasure.", body = ErasureResponse)),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ErasureId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).erasure(id).await?)))
}
