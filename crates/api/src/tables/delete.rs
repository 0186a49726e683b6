//! `DELETE /v1/tables/{id}`: deletes a custom table with its records.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TableId;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/tables/{id}",
    tag = "tables",
    operation_id = "delete_table",
    summary = "Delete a custom table with its records.",
    params(("id" = schema::TableId, Path, description = "Id of the table.")),
    responses((status = 204, description = "The table is deleted.")),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_table(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
