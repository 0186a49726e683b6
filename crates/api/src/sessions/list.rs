//! `GET /v1/{kinds}/{id}/sessions`: closed sessions, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::schema;
use houston_protocol::session::SessionResponse;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::sessions::response;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/sessions",
    tag = "sessions",
    operation_id = "list_sessions",
    summary = "List the closed sessions of an agentable, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of sessions.", body = houston_protocol::page::Page<SessionResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.position(List::Sessions)?);
    app.confirm(caller, &path).await?;
    let sessions = app.store(caller).sessions(path.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Sessions, limit, sessions, |row| i64::from(row.number), response)))
}
