//! `POST /v1/tables/{id}/fields`: adds fields to a custom table.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TableId;
use houston_protocol::table::AddFields;

use super::{refused, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    ADD_FIELDS: post "/v1/tables/{id}/fields" => add_fields,
    tag = "tables",
    operation_id = "extend_table",
    summary = "Add fields to a custom table; its records have no value of them.",
    params(("id" = houston_protocol::schema::TableId, Path, description = "Id of the table.")),
    request_body = AddFields,
    responses((status = 200, description = "The changed table.", body = houston_protocol::table::TableResponse)),
}

pub(crate) async fn add_fields(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
    // A field is there once, so a repeated request adds nothing.
    Creation { value: AddFields { fields }, key: _ }: Creation<AddFields>,
) -> Result<impl IntoResponse, ApiError> {
    let done = app.store(caller).add_fields(id, &fields).await?;
    Ok(Json(response(done.map_err(|faults| refused("/fields", faults))?)))
}
