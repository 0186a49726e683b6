//! Todos: what a user wants to get done.

use chrono_tz::Tz;
use houston_domain::field::{Entity, Max};
use houston_domain::id::{TodoId, UserId};
use houston_domain::todo::{CreateTodo, Due, TodoStatus, UpdateTodo};
use houston_store::todo::{Todo, TodoQuery};

use crate::request::checks::check_one_line;
use crate::request::prelude::*;

endpoints! {
    get "/v1/users/{id}/todos" for USER => list,
    "list_todos_of_user" in "todos": "List the todos of a user in their order, those that are done last.",
    params(
        ("status" = Option<String>, Query, description = "`open`, `done` or `all`; `open` by default."),
        ("list" = Option<String>, Query, description = "Only those of this list."),
        ("due_by" = Option<String>, Query, description = "Only those due by then: `2026-12-01`, or a time, as `2026-12-01T15:00:00Z`."),
        ("query" = Option<String>, Query, description = "Only those with this text."),
        Paged,
    ),
    200 "A page of todos." [Page<houston_domain::todo::Todo>];

    post "/v1/users/{id}/todos" for USER => create,
    "create_todo" in "todos": "Create a todo.",
    params(Keyed),
    body [CreateTodo],
    201 "The new todo." [houston_domain::todo::Todo],
    409 "`full`: the maximum number of todos exists.";

    get "/v1/todos/{id}" for ROW => async |ctx: Ctx, Id(id): Id<TodoId>| found(ctx.store().todo(id).await),
    "get_todo" in "todos": "Get a todo.",
    200 "The todo." [houston_domain::todo::Todo];

    patch "/v1/todos/{id}" for ROW => change,
    "update_todo" in "todos": "Change a todo; fields not given stay as they are.",
    body [UpdateTodo],
    200 "The todo." [houston_domain::todo::Todo];

    delete "/v1/todos/{id}" for ROW => async |ctx: Ctx, Id(id): Id<TodoId>| gone(ctx.store().delete_todo(id).await),
    "delete_todo" in "todos": "Delete a todo.",
    204 "The todo is deleted.";
}

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

async fn list(ctx: Ctx, Id(user): Id<UserId>, Query(query): Query<TodosQuery>) -> Result<impl IntoResponse> {
    let TodosQuery { limit, cursor, status, list, due_by, query } = query;
    let page = PageQuery { limit, cursor };
    let (limit, after) = (page.limit()?, page.id(List::Todos)?.map(TodoId));
    let user_row = ctx.store().user(user).await?;
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
    let query =
        TodoQuery { status: status.unwrap_or_default(), list, due_by, text, after, limit: limit_rows };
    let todos = ctx.store().todos(user, &query).await?;
    Ok(Json(Page::of(List::Todos, limit, todos, |todo: &Todo| todo.id.0.as_u128(), |todo| todo)))
}

/// The new todo comes last.
async fn create(ctx: Ctx, Id(user): Id<UserId>, request: Creation<CreateTodo>) -> Result<Response> {
    let Creation { value, key } = request;
    check(value.texts())?;
    let of_user = ctx.store().user(user).await?.time_zone;
    let due = value.due.as_deref().map(|text| due(text, value.time_zone.as_deref(), &of_user)).transpose()?;
    let (id, new, now) = (ctx.state.ids.beside(user), value.into_change(due), ctx.now());
    let (key, body) = once(&key, &new.created(id, user, now.into()));
    let done = ctx.store().create_todo(user, (id, new), now, (key, &body)).await?;
    created(unless_key_reused(done)?, "/v1/todos")
}

/// Changes the given fields, completes, reopens, moves.
async fn change(
    ctx: Ctx,
    Id(id): Id<TodoId>,
    Change(value): Change<UpdateTodo>,
) -> Result<impl IntoResponse> {
    if value == UpdateTodo::default() {
        let fields = Entity::Todo.fields().iter().map(|field| field.name).filter(|name| *name != "time_zone");
        let fields: Vec<String> = fields.map(|name| format!("`{name}`")).collect();
        let reason = format!("nothing to change: give at least one of {}", fields.join(", "));
        return Err(ApiError::field("", reason));
    }
    check(value.texts())?;
    if value.time_zone.is_some() && !matches!(value.due, Some(Some(_))) {
        return Err(ApiError::field("/time_zone", "is that of `due`: give both"));
    }
    let due = match &value.due {
        None => None,
        Some(None) => Some(None),
        Some(Some(text)) => {
            let user = ctx.store().todo(id).await?.user;
            let of_user = ctx.store().user(user).await?.time_zone;
            Some(Some(due(text, value.time_zone.as_deref(), &of_user)?))
        }
    };
    let before = value.before;
    Ok(Json(ctx.store().change_todo(id, &value.into_change(due), before).await?))
}

/// Checks the texts that are given by what their fields may have: one with a maximum of characters is a line.
fn check<'t>(texts: impl IntoIterator<Item = (&'static str, Option<&'t str>)>) -> Result<()> {
    for (name, text) in texts {
        let (Some(text), Some(field)) = (text, Entity::Todo.field(name)) else { continue };
        let pointer = format!("/{name}");
        match field.max {
            Some(Max::Chars(_)) if text.is_empty() && !field.required => {}
            Some(Max::Chars(most)) => check_one_line(&pointer, text, most)?,
            Some(Max::Bytes(most)) => check_bytes(&pointer, text, most)?,
            _ => {}
        }
    }
    Ok(())
}

/// When a todo is due, by the time zone of the request or else that of the user.
fn due(text: &str, zone: Option<&str>, of_user: &str) -> Result<Due> {
    let zone: Tz = match zone {
        Some(name) => name.parse().map_err(|_| {
            let reason =
                format!("`{name}` is not a time zone; use an IANA name such as Europe/Berlin or UTC");
            ApiError::field("/time_zone", reason)
        })?,
        None => houston_domain::local_time::parse_zone(of_user),
    };
    Due::parse(text, zone).map_err(|error| ApiError::field("/due", error))
}
