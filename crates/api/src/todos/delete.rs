//! `DELETE /v1/todos/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TodoId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/todos/{id}" => delete,
    tag = "todos",
    operation_id = "delete_todo",
    summary = "Delete a todo.",
    params(("id" = houston_protocol::schema::TodoId, Path, description = "Id of the todo.")),
    responses((status = 204, description = "The todo is deleted.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TodoId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_todo(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
