//! `DELETE /v1/records/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::RecordId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/records/{id}" => delete,
    tag = "tables",
    operation_id = "remove_record",
    summary = "Delete a record of a custom table.",
    params(("id" = houston_protocol::schema::RecordId, Path, description = "Id of the record.")),
    responses((status = 204, description = "The record is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RecordId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_record(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
