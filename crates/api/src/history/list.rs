//! `GET /v1/{kinds}/{id}/history`: the entries of the history, oldest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::schema;
use houston_protocol::session::HistoryEntryResponse;
use houston_protocol::time::Time;
use houston_store::history::StoredEntry;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// The response for a history entry.
pub(crate) fn response(placed: StoredEntry) -> HistoryEntryResponse {
    HistoryEntryResponse {
        position: placed.position,
        run_id: placed.run,
        role: placed.entry.role,
        content: placed.entry.content,
        created_at: Time(placed.created_at),
    }
}

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/history",
    tag = "sessions",
    operation_id = "list_history",
    summary = "List the entries of the history, oldest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of entries.", body = houston_protocol::page::Page<HistoryEntryResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    app.confirm(caller, &path).await?;
    let entries = app.store(caller).history(path.id, after, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, entries, |row| row.position, response)))
}
