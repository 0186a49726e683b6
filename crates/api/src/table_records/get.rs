//! `GET /v1/records/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RecordId;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/records/{id}" => get,
    tag = "tables",
    operation_id = "get_record",
    summary = "Get a record of a custom table.",
    params(("id" = houston_protocol::schema::RecordId, Path, description = "Id of the record.")),
    responses((status = 200, description = "The record.", body = houston_protocol::table::RecordResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RecordId>,
) -> Result<impl IntoResponse, ApiError> {
    let (_, record) = app.store(caller).record(id).await?;
    Ok(Json(response(record)))
}
