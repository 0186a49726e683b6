//! `PATCH /v1/todos/{id}`: changes the given fields, completes, reopens, moves.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TodoId;
use houston_protocol::todo::UpdateTodo;
use houston_store::todo::TodoChange;

use super::{check, due, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/todos/{id}" => change,
    tag = "todos",
    operation_id = "update_todo",
    summary = "Change a todo; fields not given stay as they are.",
    params(("id" = houston_protocol::schema::TodoId, Path, description = "Id of the todo.")),
    request_body = UpdateTodo,
    responses((status = 200, description = "The todo.", body = houston_protocol::todo::TodoResponse)),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
    Change(value): Change<UpdateTodo>,
) -> Result<impl IntoResponse, ApiError> {
    if value == UpdateTodo::default() {
        let fields = "`title`, `details`, `list`, `priority`, `due`, `done`, `before`";
        return Err(ApiError::field("", format!("nothing to change: give at least one of {fields}")));
    }
    let UpdateTodo { title, details, list, priority, due: text, time_zone, done, before } = value;
    check(title.as_deref(), details.as_deref(), list.as_deref())?;
    if time_zone.is_some() && !matches!(text, Some(Some(_))) {
        return Err(ApiError::field("/time_zone", "is that of `due`: give both"));
    }
    let due = match text {
        None => None,
        Some(None) => Some(None),
        Some(Some(text)) => {
            let user = app.store(caller).todo(id).await?.user;
            let of_user = app.store(caller).user(user).await?.time_zone;
            Some(Some(due(&text, time_zone.as_deref(), &of_user)?))
        }
    };
    let change = TodoChange { list, title, details, priority, due, done };
    Ok(Json(response(app.store(caller).change_todo(id, &change, before).await?)))
}
