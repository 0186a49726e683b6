//! `POST /v1/tables/{id}/import`: adds the records of a CSV text to a custom table, all or none.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::custom_table::{CsvFault, TableLimits};
use houston_domain::id::{RecordId, TableId};
use houston_protocol::problem::FieldError;
use houston_protocol::table::ImportedRecords;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::{content_length, is_of_type, receive};
use crate::documents::DocumentPermit;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, respond, stored_body, unless_key_reused};
use crate::state::App;

/// The media type of the body.
const CSV: &str = "text/csv";

/// What an import needs in memory at once, as a multiple of the text: the text, its records, and their rows.
const MEMORY_FACTOR: usize = 4;

endpoint! {
    IMPORT: post "/v1/tables/{id}/import" => import,
    tag = "tables",
    operation_id = "import_records",
    summary = "Add the records of a CSV text to a custom table, all or none.",
    description = "The first line names fields of the table, in any order. Each error has the line and the column.",
    params(
        ("id" = houston_protocol::schema::TableId, Path, description = "Id of the table."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body(content = houston_protocol::schema::Csv, content_type = "text/csv", description = "UTF-8, separated by commas, as long as the records of a table may be.", example = "amount,category\n12.50,food\n"),
    responses(
        (status = 201, description = "How many records were added.", body = ImportedRecords),
        (status = 409, description = "`full`: the table would have more than the maximum number of records.")
    ),
}

pub(crate) async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let table = app.store(caller).table(id).await?;
    if !is_of_type(request.headers(), CSV) {
        return Err(ApiError::UnsupportedMediaType { wanted: CSV });
    }
    let TableLimits { max_bytes, max_records, .. } = app.store(caller).knowledge_limits().tables;
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let (parts, body) = request.into_parts();
    content_length(&parts.headers, limit)?;
    let memory = limit.saturating_mul(MEMORY_FACTOR);
    let _permit = DocumentPermit::new(&app, caller.tenant(), memory).await?;
    let pieces = receive(&parts, body, limit).await?;
    let fields = table.fields.clone();
    let read = move || {
        let csv: Vec<u8> = pieces.concat();
        let key = Key::from_request(&parts, [csv.as_slice()])?;
        Ok::<_, ApiError>((fields.read_csv(&csv, max_records).map_err(refused)?, key))
    };
    let (records, key) = app.offload.compute(read).await??;
    // Ids of one millisecond are in no order, and records are listed in the order of their ids.
    let mut ids: Vec<RecordId> = records.iter().map(|_| app.state.ids.beside(table.user)).collect();
    ids.sort();
    let new: Vec<_> = ids.into_iter().zip(records).collect();
    let body = stored_body(&ImportedRecords { records: new.len() });
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).add_records((&table, app.now()), &new, key, &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    let text = stored.as_str().map_or_else(|| stored.to_string(), str::to_owned);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok(respond((StatusCode::CREATED, headers, text), replayed))
}

fn refused(faults: Vec<CsvFault>) -> ApiError {
    let errors = faults.iter().map(|fault| FieldError::at("", fault.to_string())).collect();
    ApiError::InvalidRequest { errors }
}
