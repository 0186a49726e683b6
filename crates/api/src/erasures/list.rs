//! `GET /v1/erasures`: all erasures of the tenant, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::erasures::response;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/erasures" => list,
    tag = "erasures",
    operation_id = "list_erasures",
    summary = "List the erasures of the tenant, newest first.",
    params(
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of erasures.", body = houston_protocol::page::Page<houston_protocol::erasure::ErasureResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Erasures)?.map(Into::into));
    let erasures = app.store(caller).erasures(before, rows(limit)).await?;
    Ok(Json(Page::of(List::Erasures, limit, erasures, |row| row.id.0.as_u128(), response)))
}
