//! `POST /v1/users/{id}/todos`: creates a todo, which comes last.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::UserId;
use houston_protocol::todo::CreateTodo;
use houston_store::todo::{NewTodo, Todo};

use super::{check, due, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

endpoint! {
    CREATE: post "/v1/users/{id}/todos" => create,
    tag = "todos",
    operation_id = "create_todo",
    summary = "Create a todo.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateTodo,
    responses(
        (status = 201, description = "The new todo.", body = houston_protocol::todo::TodoResponse),
        (status = 409, description = "`full`: the maximum number of todos exists.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    request: Creation<CreateTodo>,
) -> Result<Response, ApiError> {
    let Creation { value: CreateTodo { title, details, list, priority, due: text, time_zone }, key } =
        request;
    check(Some(&title), details.as_deref(), list.as_deref())?;
    let of_user = app.store(caller).user(user).await?.time_zone;
    let due = text.map(|text| due(&text, time_zone.as_deref(), &of_user)).transpose()?;
    let new = NewTodo {
        id: app.state.ids.beside(user),
        list: list.unwrap_or_default(),
        title,
        details: details.unwrap_or_default(),
        priority: priority.unwrap_or_default(),
        due,
    };
    let now = app.now();
    let todo = Todo {
        id: new.id,
        user,
        list: new.list.clone(),
        title: new.title.clone(),
        details: new.details.clone(),
        priority: new.priority,
        due: new.due.clone().map(|due| (due.local, due.zone.to_string(), due.at)),
        position: 0.0,
        done_at: None,
        untrusted: false,
        created_at: now,
        updated_at: now,
    };
    let body = stored_body(&response(todo));
    let done =
        app.store(caller).create_todo(user, (new, now), key.as_ref().map(Key::as_stored), &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/todos")
}
