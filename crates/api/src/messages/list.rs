//! `GET /v1/{kinds}/{id}/messages`: the thread, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::messages::response;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/{kinds}/{id}/messages" => list,
    tag = "messages",
    operation_id = "list_messages",
    summary = "List the messages of a thread, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; `server.thread_messages` (50) by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of messages.", body = houston_protocol::page::Page<houston_protocol::message::MessageResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let usual = app.state.config.thread_messages;
    let (limit, before) = (query.limit_or(usual)?, query.position(List::Messages)?);
    app.confirm(caller, &path).await?;
    let messages = app.store(caller).messages(path.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Messages, limit, messages, |row| row.message.seq, response)))
}
