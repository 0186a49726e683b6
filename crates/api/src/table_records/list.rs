//! `GET /v1/tables/{id}/records`: finds records of a custom table.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::custom_table::Order;
use houston_domain::id::TableId;
use houston_store::custom_record::RecordSearch;
use serde::Deserialize;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;
use crate::tables::filter;

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordsQuery {
    limit: Option<String>,
    cursor: Option<String>,
    #[serde(rename = "where")]
    conditions: Option<String>,
    query: Option<String>,
    order: Option<String>,
}

endpoint! {
    LIST: get "/v1/tables/{id}/records" => list,
    tag = "tables",
    operation_id = "list_records",
    summary = "Find records of a custom table, the newest first.",
    params(
        ("id" = houston_protocol::schema::TableId, Path, description = "Id of the table."),
        ("where" = Option<String>, Query, description = "Conditions as JSON.", example = "{\"amount\": {\"gte\": 10}}"),
        ("query" = Option<String>, Query, description = "A text in one of the values."),
        ("order" = Option<String>, Query, description = "A field; `-field` for the greatest first.", example = "-amount"),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page, with the same other parameters.")
    ),
    responses((status = 200, description = "A page of records.", body = houston_protocol::page::Page<houston_protocol::table::RecordResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TableId>,
    Query(query): Query<RecordsQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let RecordsQuery { limit, cursor, conditions, query, order } = query;
    let page = PageQuery { limit, cursor };
    let (limit, offset) = (page.limit()?, page.position(List::Records)?.unwrap_or(0));
    let table = app.store(caller).table(id).await?;
    let filter = filter(&table.fields, conditions.as_deref(), query)?;
    let order = Order::parse(order.as_deref(), &table.fields)
        .map_err(|fault| ApiError::parameter("order", fault.to_string()))?;
    let search = RecordSearch { filter, order, offset, limit: rows(limit) };
    let (records, _) = app.store(caller).search_records(&table, &search).await?;
    // The order may be that of values, so the next page is found by the number of records before it.
    let next = offset.saturating_add(rows(limit) - 1);
    Ok(Json(Page::of(List::Records, limit, records, |_| next, response)))
}
