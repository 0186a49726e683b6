//! Todos: what a user wants to get done.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chrono_tz::Tz;
use houston_domain::field::{Entity, Max};
use houston_domain::id::{TodoId, UserId};
use houston_domain::todo::{CreateTodo, Due, TodoStatus, UpdateTodo};
use houston_store::todo::{Todo, TodoQuery};
use serde::Deserialize;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::body::Creation;
use crate::request::checks::{check_line, check_size, check_text};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::request::page::{List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::resources::fields::Change;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, CREATE, GET, CHANGE, DELETE];

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TodosQuery {
    limit: Option<String>,
    cursor: Option<String>,
    status: Option<TodoStatus>,
    list: Option<String>,
    due_by: Option<String>,
    query: Option<String>,
}

endpoint! {
    LIST: get "/v1/users/{id}/todos" for USER => list,
    tag = "todos",
    operation_id = "list_todos_of_user",
    summary = "List the todos of a user in their order, those that are done last.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("status" = Option<String>, Query, description = "`open`, `done` or `all`; `open` by default."),
        ("list" = Option<String>, Query, description = "Only those of this list."),
        ("due_by" = Option<String>, Query, description = "Only those due by then: `2026-12-01`, or a time, as `2026-12-01T15:00:00Z`."),
        ("query" = Option<String>, Query, description = "Only those with this text in the title or the details."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of todos.", body = houston_protocol::page::Page<houston_domain::todo::Todo>)),
}

async fn list(
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
    Ok(Json(Page::of(List::Todos, limit, todos, |todo: &Todo| todo.id.0.as_u128(), |todo| todo)))
}

endpoint! {
    CREATE: post "/v1/users/{id}/todos" for USER => create,
    tag = "todos",
    operation_id = "create_todo",
    summary = "Create a todo.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateTodo,
    responses(
        (status = 201, description = "The new todo.", body = houston_domain::todo::Todo),
        (status = 409, description = "`full`: the maximum number of todos exists.")
    ),
}

/// The new todo comes last.
async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    request: Creation<CreateTodo>,
) -> Result<Response, ApiError> {
    let Creation { value, key } = request;
    check(value.texts())?;
    let of_user = app.store(caller).user(user).await?.time_zone;
    let due = value.due.as_deref().map(|text| due(text, value.time_zone.as_deref(), &of_user)).transpose()?;
    let new = value.into_new(app.state.ids.beside(user), due);
    let now = app.now();
    let todo = new.created(user, now.into());
    let body = stored_body(&todo);
    let done =
        app.store(caller).create_todo(user, (new, now), key.as_ref().map(Key::as_stored), &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/todos")
}

endpoint! {
    GET: get "/v1/todos/{id}" for ROW => get,
    tag = "todos",
    operation_id = "get_todo",
    summary = "Get a todo.",
    params(("id" = houston_domain::id::TodoId, Path, description = "Id of the todo.")),
    responses((status = 200, description = "The todo.", body = houston_domain::todo::Todo)),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(app.store(caller).todo(id).await?))
}

endpoint! {
    CHANGE: patch "/v1/todos/{id}" for ROW => change,
    tag = "todos",
    operation_id = "update_todo",
    summary = "Change a todo; fields not given stay as they are.",
    params(("id" = houston_domain::id::TodoId, Path, description = "Id of the todo.")),
    request_body = UpdateTodo,
    responses((status = 200, description = "The todo.", body = houston_domain::todo::Todo)),
}

/// Changes the given fields, completes, reopens, moves.
async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
    Change(value): Change<UpdateTodo>,
) -> Result<impl IntoResponse, ApiError> {
    if value == UpdateTodo::default() {
        let fields = Entity::Todo.fields().iter().map(|field| field.name).filter(|name| *name != "time_zone");
        let fields: Vec<String> = fields.map(|name| format!("`{name}`")).collect();
        return Err(ApiError::field(
            "",
            format!("nothing to change: give at least one of {}", fields.join(", ")),
        ));
    }
    check(value.texts())?;
    if value.time_zone.is_some() && !matches!(value.due, Some(Some(_))) {
        return Err(ApiError::field("/time_zone", "is that of `due`: give both"));
    }
    let due = match &value.due {
        None => None,
        Some(None) => Some(None),
        Some(Some(text)) => {
            let user = app.store(caller).todo(id).await?.user;
            let of_user = app.store(caller).user(user).await?.time_zone;
            Some(Some(due(text, value.time_zone.as_deref(), &of_user)?))
        }
    };
    let before = value.before;
    Ok(Json(app.store(caller).change_todo(id, &value.into_change(due), before).await?))
}

endpoint! {
    DELETE: delete "/v1/todos/{id}" for ROW => delete,
    tag = "todos",
    operation_id = "delete_todo",
    summary = "Delete a todo.",
    params(("id" = houston_domain::id::TodoId, Path, description = "Id of the todo.")),
    responses((status = 204, description = "The todo is deleted.")),
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_todo(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks the texts that are given by what their fields may have: one with a maximum of characters is a line.
fn check<'t>(texts: impl IntoIterator<Item = (&'static str, Option<&'t str>)>) -> Result<(), ApiError> {
    for (name, text) in texts {
        let (Some(text), Some(field)) = (text, Entity::Todo.field(name)) else { continue };
        let pointer = format!("/{name}");
        match field.max {
            Some(Max::Chars(_)) if text.is_empty() && !field.required => {}
            Some(Max::Chars(most)) => {
                check_line(&pointer, text, most)?;
                if text.contains(['\n', '\r']) {
                    return Err(ApiError::field(&pointer, "must be one line"));
                }
            }
            Some(Max::Bytes(most)) => {
                check_text(&pointer, text)?;
                check_size(&pointer, text.len(), most)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// When a todo is due, by the time zone of the request or else that of the user.
fn due(text: &str, zone: Option<&str>, of_user: &str) -> Result<Due, ApiError> {
    let zone: Tz = match zone {
        Some(name) => name.parse().map_err(|_| {
            let reason =
                format!("`{name}` is not a time zone; use an IANA name such as Europe/Berlin or UTC");
            ApiError::field("/time_zone", reason)
        })?,
        None => houston_domain::local_time::parse_zone(of_user),
    };
    Due::parse(text, zone).map_err(|error| ApiError::field("/due", error.to_string()))
}
