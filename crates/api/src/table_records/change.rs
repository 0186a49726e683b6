//! `PATCH /v1/records/{id}`: changes values of a record of a custom table.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::custom_table::Part;
use houston_domain::id::RecordId;
use houston_protocol::table::UpdateRecord;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::tables::refused;

endpoint! {
    CHANGE: patch "/v1/records/{id}" => change,
    tag = "tables",
    operation_id = "change_record",
    summary = "Change values of a record; null removes one, values not given stay as they are.",
    params(("id" = houston_protocol::schema::RecordId, Path, description = "Id of the record.")),
    request_body = UpdateRecord,
    responses((status = 200, description = "The record.", body = houston_protocol::table::RecordResponse)),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RecordId>,
    // A PATCH is idempotent, so the Idempotency-Key is ignored.
    Creation { value: UpdateRecord { values }, key: _ }: Creation<UpdateRecord>,
) -> Result<impl IntoResponse, ApiError> {
    let (table, record) = app.store(caller).record(id).await?;
    let checked = table.fields.check(&values, None, Part::Changes);
    let changes = checked.map_err(|faults| refused("/values", faults))?;
    Ok(Json(response(app.store(caller).change_record((&table, record.id), &changes).await?)))
}
