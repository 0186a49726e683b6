//! `DELETE /v1/triggers/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TriggerId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/triggers/{id}" => delete,
    tag = "triggers",
    operation_id = "delete_trigger",
    summary = "Delete a trigger.",
    params(("id" = houston_protocol::schema::TriggerId, Path, description = "Id of the trigger.")),
    responses((status = 204, description = "It is deleted. Messages that it has posted stay.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TriggerId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_trigger(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
