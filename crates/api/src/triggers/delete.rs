//! `DELETE /v1/triggers/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TriggerId;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/triggers/{id}",
    tag = "triggers",
    operation_id = "delete_trigger",
    summary = "Delete a trigger.",
    params(("id" = schema::TriggerId, Path, description = "Id of the trigger.")),
    responses((status = 204, description = "It is deleted. Messages that it has posted stay.")),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TriggerId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_trigger(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
