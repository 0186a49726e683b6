//! `DELETE /v1/todos/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TodoId;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/todos/{id}",
    tag = "todos",
    operation_id = "delete_todo",
    summary = "Delete a todo.",
    params(("id" = schema::TodoId, Path, description = "Id of the todo.")),
    responses((status = 204, description = "The todo is deleted.")),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_todo(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
