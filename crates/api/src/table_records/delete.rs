//! `DELETE /v1/records/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::RecordId;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/records/{id}",
    tag = "tables",
    operation_id = "remove_record",
    summary = "Delete a record of a custom table.",
    params(("id" = schema::RecordId, Path, description = "Id of the record.")),
    responses((status = 204, description = "The record is deleted.")),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RecordId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_record(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
