//! `GET /v1/users/{id}/todos`: the todos of a user in their order, those that are done last.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{TodoId, UserId};
use houston_domain::todo::TodoStatus;
use houston_store::todo::{Todo, TodoQuery};
use serde::Deserialize;

use super::{due, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TodosQuery {
    limit: Option<String>,
    cursor: Option<String>,
    status: Option<TodoStatus>,
    list: Option<String>,
    due_by: Option<String>,
    query: Option<String>,
}

endpoint! {
    LIST: get "/v1/users/{id}/todos" => list,
    tag = "todos",
    operation_id = "list_todos_of_user",
    summary = "List the todos of a user in their order, those that are done last.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("status" = Option<String>, Query, description = "`open`, `done` or `all`; `open` by default."),
        ("list" = Option<String>, Query, description = "Only those of this list."),
        ("due_by" = Option<String>, Query, description = "Only those due by then: `2026-12-01`, or a time, as `2026-12-01T15:00:00Z`."),
        ("query" = Option<String>, Query, description = "Only those with this text in the title or the details."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of todos.", body = houston_protocol::page::Page<houston_protocol::todo::TodoResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    Query(query): Query<TodosQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let TodosQuery { limit, cursor, status, list, due_by, query } = query;
    let page = PageQuery { limit, cursor };
    let (limit, after) = (page.limit()?, page.id(List::Todos)?.map(TodoId));
    let user_row = app.store(caller).user(user).await?;
    let due_by = due_by.map(|text| due(&text, None, &user_row.time_zone).map(|due| due.at));
    let due_by = due_by.transpose().map_err(|_| {
        ApiError::parameter("due_by", "must be a day, as 2026-12-01, or a time, as 2026-12-01T15:00:00Z")
    })?;
    let (text, limit_rows) = (query, rows(limit));
    for (name, given) in [("query", &text), ("list", &list)] {
        if given.as_ref().is_some_and(|text| text.contains('\0')) {
            return Err(ApiError::parameter(name, "the character U+0000 is in no todo"));
        }
    }
    let query = TodoQuery {
        status: status.unwrap_or_default(),
        list,
        due_by,
        text,
        written_for: None,
        after,
        limit: limit_rows,
    };
    let todos = app.store(caller).todos(user, &query).await?;
    Ok(Json(Page::of(List::Todos, limit, todos, |todo: &Todo| todo.id.0.as_u128(), response)))
}
