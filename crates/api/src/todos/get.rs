//! `GET /v1/todos/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TodoId;
use houston_protocol::schema;
use houston_protocol::todo::TodoResponse;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/todos/{id}",
    tag = "todos",
    operation_id = "get_todo",
    summary = "Get a todo.",
    params(("id" = schema::TodoId, Path, description = "Id of the todo.")),
    responses((status = 200, description = "The todo.", body = TodoResponse)),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).todo(id).await?)))
}
