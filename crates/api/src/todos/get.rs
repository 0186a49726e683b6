//! `GET /v1/todos/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TodoId;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/todos/{id}" => get,
    tag = "todos",
    operation_id = "get_todo",
    summary = "Get a todo.",
    params(("id" = houston_protocol::schema::TodoId, Path, description = "Id of the todo.")),
    responses((status = 200, description = "The todo.", body = houston_protocol::todo::TodoResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).todo(id).await?)))
}
