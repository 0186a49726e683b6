//! `GET /v1/tables/{id}/records.csv`: the records of a custom table as CSV, sent page by page.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use houston_domain::id::{RecordId, TableId};
use houston_store::custom_table::CustomTable;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

/// Records that are read and held at once; with the usual limits at most 4 MB.
const PAGE: i64 = 200;

endpoint! {
    EXPORT: get "/v1/tables/{id}/records.csv" => export,
    tag = "tables",
    operation_id = "export_records",
    summary = "Export the records of a custom table as CSV, in the order in which they were added.",
    description = "One column for each field, named in the first line. An empty cell is no value, a list is a JSON array. A text that a spreadsheet would take for a formula begins with `'`; an import takes it away again.",
    params(("id" = houston_protocol::schema::TableId, Path, description = "Id of the table.")),
    responses((status = 200, description = "The records.", body = String, content_type = "text/csv")),
}

pub(crate) async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
) -> Result<impl IntoResponse, ApiError> {
    let table = app.store(caller).table(id).await?;
    // The first page is read before the response begins, so that its errors are answers.
    let first = page(&app, caller, &table, None).await?;
    let head = Bytes::from(table.fields.csv_head());
    let name = format!("attachment; filename=\"{}.csv\"", table.name);
    let rest = stream::try_unfold((app, table, first.1), move |(app, table, after)| async move {
        let Some(after) = after else { return Ok(None) };
        let (lines, next) = page(&app, caller, &table, Some(after)).await?;
        Ok::<_, ApiError>(Some((lines, (app, table, next))))
    });
    // An error ends the connection, so that a part is not taken for the whole.
    let all = stream::iter([Ok(head), Ok(first.0)]).chain(rest).map_err(|error| {
        tracing::warn!(%error, "an export of records broke off");
        axum::BoxError::from("the export broke off")
    });
    let headers = [
        (header::CONTENT_DISPOSITION, name),
        (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present".to_owned()),
    ];
    Ok((headers, Body::from_stream(all)))
}

/// The lines of a page, and the last record if there may be more.
async fn page(
    app: &App,
    caller: Caller,
    table: &CustomTable,
    after: Option<RecordId>,
) -> Result<(Bytes, Option<RecordId>), ApiError> {
    let records = app.store(caller).records_after(table, after, PAGE).await?;
    let is_full = i64::try_from(records.len()).is_ok_and(|count| count >= PAGE);
    let last = records.last().map(|(id, _)| *id).filter(|_| is_full);
    let lines: Vec<u8> = records.iter().flat_map(|(_, record)| table.fields.csv_line(record)).collect();
    Ok((Bytes::from(lines), last))
}
