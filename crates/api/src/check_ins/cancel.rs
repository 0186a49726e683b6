//! `DELETE /v1/check-ins/{id}`: takes one back. 404 when its time has come.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::CheckInId;
use houston_protocol::schema;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/check-ins/{id}",
    tag = "check-ins",
    operation_id = "delete_check_in",
    summary = "Takes a check-in back",
    params(
        ("id" = schema::CheckInId, Path)
    ),
    responses(
        (status = 204, description = "It is gone")
    ),
)]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<CheckInId>,
) -> Result<StatusCode, ApiError> {
    app.store().cancel_check_in(caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
