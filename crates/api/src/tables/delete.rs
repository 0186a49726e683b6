//! `DELETE /v1/tables/{id}`: deletes a custom table with its records.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TableId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/tables/{id}" => delete,
    tag = "tables",
    operation_id = "delete_table",
    summary = "Delete a custom table with its records.",
    params(("id" = houston_protocol::schema::TableId, Path, description = "Id of the table.")),
    responses((status = 204, description = "The table is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_table(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
