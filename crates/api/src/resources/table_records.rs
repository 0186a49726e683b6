//! Records of custom tables, one by one and as CSV.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use houston_domain::custom_table::{CsvFault, MAX_ADDED, Order, Part, TableLimits};
use houston_domain::id::{RecordId, TableId};
use houston_protocol::problem::FieldError;
use houston_protocol::table::{AddRecords, AddedRecords, ImportedRecords, UpdateRecord};
use houston_store::custom_record::{CustomRecord, RecordData, RecordSearch};
use houston_store::custom_table::CustomTable;

use crate::request::body::{content_length, is_of_type, receive};
use crate::request::idempotency::created_many;
use crate::request::prelude::*;
use crate::resources::tables::{filter, refused};
use crate::state::documents::DocumentPermit;

endpoints! {
    get "/v1/tables/{id}/records.csv" for ROW => export,
    "export_records" in "tables": "Export the records of a custom table as CSV, in the order in which they were added.",
    description = "One column for each field, named in the first line. An empty cell is no value, a list is a JSON array. A text that a spreadsheet would take for a formula begins with `'`; an import takes it away again.",
    200 "The records." [String, content_type = "text/csv"];

    post "/v1/tables/{id}/import" for ROW => import,
    "import_records" in "tables": "Add the records of a CSV text to a custom table, all or none.",
    description = "The first line names fields of the table, in any order. Each error has the line and the column.",
    params(Keyed),
    body [houston_protocol::schema::Csv, content_type = "text/csv", description = "UTF-8, separated by commas, as long as the records of a table may be.", example = "amount,category\n12.50,food\n"],
    201 "How many records were added." [ImportedRecords],
    409 "`full`: the table would have more than the maximum number of records.";

    get "/v1/tables/{id}/records" for ROW => list,
    "list_records" in "tables": "Find records of a custom table, the newest first.",
    params(
        ("where" = Option<String>, Query, description = "Conditions as JSON.", example = "{\"amount\": {\"gte\": 10}}"),
        ("query" = Option<String>, Query, description = "A text in one of the values."),
        ("order" = Option<String>, Query, description = "A field; `-field` for the greatest first.", example = "-amount"),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page, with the same other parameters."),
    ),
    200 "A page of records." [Page<houston_protocol::table::RecordResponse>];

    post "/v1/tables/{id}/records" for ROW => add,
    "create_records" in "tables": "Add records to a custom table, all or none.",
    params(Keyed),
    body [AddRecords],
    201 "The new records." [AddedRecords],
    409 "`full`: the table would have more than the maximum number of records.";

    get "/v1/records/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<RecordId>| found(ctx.store().record(id).await.map(|(_, record)| record)),
    "get_record" in "tables": "Get a record of a custom table.",
    200 "The record." [houston_protocol::table::RecordResponse];

    patch "/v1/records/{id}" for ROW => change,
    "change_record" in "tables": "Change values of a record; null removes one, values not given stay as they are.",
    body [UpdateRecord],
    200 "The record." [houston_protocol::table::RecordResponse];

    delete "/v1/records/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<RecordId>| gone(ctx.store().delete_record(id).await),
    "remove_record" in "tables": "Delete a record of a custom table.",
    204 "The record is deleted.";
}

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordsQuery {
    limit: Option<String>,
    cursor: Option<String>,
    #[serde(rename = "where")]
    conditions: Option<String>,
    query: Option<String>,
    order: Option<String>,
}

async fn list(ctx: Ctx, Id(id): Id<TableId>, Query(query): Query<RecordsQuery>) -> Result<impl IntoResponse> {
    let RecordsQuery { limit, cursor, conditions, query, order } = query;
    let page = PageQuery { limit, cursor };
    let (limit, offset) = (page.limit()?, page.position(List::Records)?.unwrap_or(0));
    let table = ctx.store().table(id).await?;
    let filter = filter(&table.fields, conditions.as_deref(), query)?;
    let order = Order::parse(order.as_deref(), &table.fields)
        .map_err(|fault| ApiError::parameter("order", fault.to_string()))?;
    let search = RecordSearch { filter, order, offset, limit: rows(limit) };
    let (records, _) = ctx.store().search_records(&table, &search).await?;
    // The order may be that of values, so the next page is found by the number of records before it.
    let next = offset.saturating_add(rows(limit) - 1);
    Ok(Json(Page::of(List::Records, limit, records, |_| next, |record| record)))
}

async fn add(ctx: Ctx, Id(id): Id<TableId>, request: Creation<AddRecords>) -> Result<Response> {
    let Creation { value: AddRecords { records }, key } = request;
    if !(1..=MAX_ADDED).contains(&records.len()) {
        return Err(ApiError::field("/records", format!("must have 1 to {MAX_ADDED} records")));
    }
    let table = ctx.store().table(id).await?;
    // Ids of one millisecond are in no order, and records are listed in the order of their ids.
    let mut ids: Vec<RecordId> = records.iter().map(|_| ctx.state.ids.beside(table.user)).collect();
    ids.sort();
    let mut new = Vec::with_capacity(records.len());
    for ((nth, record), id) in records.iter().enumerate().zip(ids) {
        let checked = table.fields.check(record, None, Part::Whole);
        let data = checked.map_err(|faults| refused(&format!("/records/{nth}"), faults))?;
        new.push(RecordData { id, data });
    }
    let now = ctx.now();
    let (created_at, updated_at) = (Time(now), Time(now));
    let made = |RecordData { id, data }: &RecordData| {
        let data = data.clone();
        CustomRecord { id: *id, table: table.id, data, untrusted: false, created_at, updated_at }
    };
    let (key, body) = once(&key, &AddedRecords { data: new.iter().map(made).collect() });
    let done = ctx.store().add_records((&table, now), &new, (key, &body)).await?;
    Ok(created_many(unless_key_reused(done)?))
}

async fn change(
    ctx: Ctx,
    Id(id): Id<RecordId>,
    Sent(UpdateRecord { values }): Sent<UpdateRecord>,
) -> Result<impl IntoResponse> {
    let (table, record) = ctx.store().record(id).await?;
    let checked = table.fields.check(&values, None, Part::Changes);
    let changes = checked.map_err(|faults| refused("/values", faults))?;
    Ok(Json(ctx.store().change_record((&table, record.id), &changes).await?))
}

/// Records that are read and held at once; with the usual limits at most 4 MB.
const PAGE: i64 = 200;

/// The records are sent page by page.
async fn export(ctx: Ctx, Id(id): Id<TableId>) -> Result<impl IntoResponse> {
    let table = ctx.store().table(id).await?;
    // The first page is read before the response begins, so that its errors are answers.
    let first = csv_page(&ctx, &table, None).await?;
    let head = Bytes::from(table.fields.csv_head());
    let name = format!("attachment; filename=\"{}.csv\"", table.name);
    let rest = stream::try_unfold((ctx, table, first.1), move |(ctx, table, after)| async move {
        let Some(after) = after else { return Ok(None) };
        let (lines, next) = csv_page(&ctx, &table, Some(after)).await?;
        Ok::<_, ApiError>(Some((lines, (ctx, table, next))))
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
async fn csv_page(
    ctx: &Ctx,
    table: &CustomTable,
    after: Option<RecordId>,
) -> Result<(Bytes, Option<RecordId>)> {
    let records = ctx.store().records_after(table, after, PAGE).await?;
    let is_full = i64::try_from(records.len()).is_ok_and(|count| count >= PAGE);
    let last = records.last().map(|record| record.id).filter(|_| is_full);
    let lines: Vec<u8> = records.iter().flat_map(|record| table.fields.csv_line(&record.data)).collect();
    Ok((Bytes::from(lines), last))
}

/// The media type of the body.
const CSV: &str = "text/csv";

/// What an import needs in memory at once, as a multiple of the text: the text, its records, and their rows.
const MEMORY_FACTOR: usize = 4;

async fn import(ctx: Ctx, Id(id): Id<TableId>, request: Request<Body>) -> Result<Response> {
    let table = ctx.store().table(id).await?;
    ensure!(is_of_type(request.headers(), CSV), ApiError::UnsupportedMediaType(CSV));
    let TableLimits { max_bytes, max_records, .. } = ctx.store().knowledge_limits.tables;
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let (parts, body) = request.into_parts();
    content_length(&parts.headers, limit)?;
    let memory = limit.saturating_mul(MEMORY_FACTOR);
    let _permit = DocumentPermit::new(&ctx.documents, ctx.caller.tenant(), memory).await?;
    let pieces = receive(&parts, body, limit).await?;
    let fields = table.fields.clone();
    let read = move || {
        let csv: Vec<u8> = pieces.concat();
        let key = Key::from_request(&parts, [csv.as_slice()])?;
        Ok::<_, ApiError>((fields.read_csv(&csv, max_records).map_err(csv_refused)?, key))
    };
    let (records, key) = ctx.offload.compute(read).await??;
    // Ids of one millisecond are in no order, and records are listed in the order of their ids.
    let mut ids: Vec<RecordId> = records.iter().map(|_| ctx.state.ids.beside(table.user)).collect();
    ids.sort();
    let new: Vec<_> = ids.into_iter().zip(records).map(|(id, data)| RecordData { id, data }).collect();
    let (key, body) = once(&key, &ImportedRecords { records: new.len() });
    let done = ctx.store().add_records((&table, ctx.now()), &new, (key, &body)).await?;
    Ok(created_many(unless_key_reused(done)?))
}

fn csv_refused(faults: Vec<CsvFault>) -> ApiError {
    let errors = faults.iter().map(|fault| FieldError::at("", fault.to_string())).collect();
    ApiError::InvalidRequest(errors)
}
