//! `POST /v1/tables/{id}/records`: adds records to a custom table, all or none.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::custom_table::{MAX_ADDED, Part};
use houston_domain::id::{RecordId, TableId};
use houston_protocol::table::{AddRecords, AddedRecords};
use houston_store::custom_record::CustomRecord;
use serde_json::Value;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, respond, stored_body, unless_key_reused};
use crate::state::App;
use crate::tables::refused;

endpoint! {
    ADD: post "/v1/tables/{id}/records" => add,
    tag = "tables",
    operation_id = "create_records",
    summary = "Add records to a custom table, all or none.",
    params(
        ("id" = houston_protocol::schema::TableId, Path, description = "Id of the table."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = AddRecords,
    responses(
        (status = 201, description = "The new records.", body = AddedRecords),
        (status = 409, description = "`full`: the table would have more than the maximum number of records.")
    ),
}

pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
    request: Creation<AddRecords>,
) -> Result<Response, ApiError> {
    let Creation { value: AddRecords { records }, key } = request;
    if !(1..=MAX_ADDED).contains(&records.len()) {
        return Err(ApiError::field("/records", format!("must have 1 to {MAX_ADDED} records")));
    }
    let table = app.store(caller).table(id).await?;
    // Ids of one millisecond are in no order, and records are listed in the order of their ids.
    let mut ids: Vec<RecordId> = records.iter().map(|_| app.state.ids.beside(table.user)).collect();
    ids.sort();
    let mut new = Vec::with_capacity(records.len());
    for ((nth, record), id) in records.iter().enumerate().zip(ids) {
        let checked = table.fields.check(record, None, Part::Whole);
        new.push((id, checked.map_err(|faults| refused(&format!("/records/{nth}"), faults))?));
    }
    let now = app.now();
    let made = |(id, data): &(RecordId, serde_json::Map<String, Value>)| {
        response(CustomRecord {
            id: *id,
            table: table.id,
            data: data.clone(),
            untrusted: false,
            created_at: now,
            updated_at: now,
        })
    };
    let body = stored_body(&AddedRecords { data: new.iter().map(made).collect() });
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).add_records((&table, now), &new, key, &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    let text = stored.as_str().map_or_else(|| stored.to_string(), str::to_owned);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok(respond((StatusCode::CREATED, headers, text), replayed))
}
