//! `DELETE /v1/check-ins/{id}`: deletes a check-in. 404 once it has started.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::CheckInId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    CANCEL: delete "/v1/check-ins/{id}" => cancel,
    tag = "check-ins",
    operation_id = "delete_check_in",
    summary = "Delete a check-in that has not started yet.",
    params(
        ("id" = houston_protocol::schema::CheckInId, Path, description = "Id of the check-in.")
    ),
    responses(
        (status = 204, description = "The check-in is deleted.")
    ),
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<CheckInId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).cancel_check_in(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
