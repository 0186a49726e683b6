//! `GET /v1/sessions/{id}/history`: the history entries of a closed session, oldest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::SessionId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::history::list::response;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    HISTORY: get "/v1/sessions/{id}/history" => history,
    tag = "sessions",
    operation_id = "list_session_history",
    summary = "List the history entries of a closed session, oldest first.",
    params(
        ("id" = houston_protocol::schema::SessionId, Path, description = "Id of the session."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of entries.", body = houston_protocol::page::Page<houston_protocol::session::HistoryEntryResponse>)
    ),
}

pub(crate) async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<SessionId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    let session = app.store(caller).session(id).await?;
    let entries = app.store(caller).session_history(&session, after, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, entries, |row| row.position, response)))
}
