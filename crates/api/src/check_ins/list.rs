//! `GET /v1/{kinds}/{id}/check-ins`: those that wait, the latest that was set first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::check_in::CheckInResponse;
use houston_protocol::schema;

use crate::auth::Caller;
use crate::check_ins::response;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::agentable_path::AgentablePath;
use crate::query::Query;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/check-ins",
    tag = "check-ins",
    operation_id = "list_check_ins",
    summary = "Check-ins that wait, newest first",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Items of the page; 20, if not given."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")
    ),
    responses(
        (status = 200, description = "A page of check-ins", body = houston_protocol::page::Page<CheckInResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::CheckIns)?.map(Into::into));
    app.confirm(caller, &place).await?;
    let check_ins = app.store().check_ins(caller.tenant, place.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::CheckIns, limit, check_ins, |row| row.id.0.as_u128(), response)))
}
