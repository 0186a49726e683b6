//! What models read of a conversation, for debugging; it is not part of the thread: the history (`/v1/{kinds}/{id}/history`),
//! whose end is the open session; closed sessions (`/v1/sessions`), each with its summary; and compressions, i.e. summaries that
//! replace the beginning of a long conversation in what the model is sent.

use std::convert::identity as response;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{CompressionId, SessionId};
use houston_protocol::session::HistoryEntryResponse;
use houston_protocol::time::Time;
use houston_store::history::StoredEntry;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::request::reads::{get_by_id, list_of_agentable};
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[GET, HISTORY, LIST_HISTORY, LIST, LIST_COMPRESSIONS];

list_of_agentable! {
    path: "/v1/{kinds}/{id}/sessions", access: AGENTABLE.unshown(), tag: "sessions", operation: "list_sessions",
    summary: "List the closed sessions of an agentable, newest first.",
    list: Sessions, from: query => query.position(List::Sessions)?, position: |row| i64::from(row.number),
    method: sessions, body: houston_domain::session::Session, "A page of sessions.",
}

get_by_id! {
    path: "/v1/sessions/{id}", access: ROW.unshown(), tag: "sessions", operation: "get_session",
    summary: "Get a closed session.",
    id: SessionId, "Id of the session.",
    method: session, body: houston_domain::session::Session, "The session.",
}

endpoint! {
    HISTORY: get "/v1/sessions/{id}/history" for ROW.unshown() => history,
    tag = "sessions",
    operation_id = "list_session_history",
    summary = "List the history entries of a closed session, oldest first.",
    params(
        ("id" = houston_domain::id::SessionId, Path, description = "Id of the session."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of entries.", body = houston_protocol::page::Page<houston_protocol::session::HistoryEntryResponse>)
    ),
}

async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<SessionId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    let session = app.store(caller).session(id).await?;
    let entries = app.store(caller).session_history(&session, after, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, entries, |row| row.position, entry_response)))
}

/// The response for a history entry.
fn entry_response(placed: StoredEntry) -> HistoryEntryResponse {
    HistoryEntryResponse {
        position: placed.position,
        run_id: placed.run,
        role: placed.entry.role,
        content: placed.entry.content,
        created_at: Time(placed.created_at),
    }
}

list_of_agentable! {
    LIST_HISTORY => list_history, entry_response;
    path: "/v1/{kinds}/{id}/history", access: AGENTABLE.unshown(), tag: "sessions", operation: "list_history",
    summary: "List the entries of the history, oldest first.",
    list: History, from: query => query.position(List::History)?.unwrap_or(0), position: |row| row.position,
    method: history, body: HistoryEntryResponse, "A page of entries.",
}

list_of_agentable! {
    LIST_COMPRESSIONS => list_compressions, response;
    path: "/v1/{kinds}/{id}/compressions", access: AGENTABLE.unshown(), tag: "sessions", operation: "list_compressions",
    summary: "List the compressions of an agentable's history, newest first.",
    list: Compressions, from: query => query.id(List::Compressions)?.map(CompressionId), position: |row| row.id.0.as_u128(),
    method: compressions, body: houston_domain::compression::Compression, "A page of compressions.",
}
