//! `GET /v1/tables/{id}`: a custom table with its fields and the JSON Schema of its records.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TableId;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/tables/{id}" => get,
    tag = "tables",
    operation_id = "get_table",
    summary = "Get a custom table with its fields and the JSON Schema of its records.",
    params(("id" = houston_protocol::schema::TableId, Path, description = "Id of the table.")),
    responses((status = 200, description = "The table.", body = houston_protocol::table::TableResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).table(id).await?)))
}
