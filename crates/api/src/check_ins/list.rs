//! `GET /v1/{kinds}/{id}/check-ins`: check-ins that have not started, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::check_in::CheckInResponse;
use houston_protocol::schema;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::check_ins::response;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/check-ins",
    tag = "check-ins",
    operation_id = "list_check_ins",
    summary = "List the check-ins that have not started yet, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of check-ins.", body = houston_protocol::page::Page<CheckInResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::CheckIns)?.map(Into::into));
    app.confirm(caller, &path).await?;
    let check_ins = app.store(caller).check_ins(path.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::CheckIns, limit, check_ins, |row| row.id.0.as_u128(), response)))
}
