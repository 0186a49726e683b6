//! `DELETE /v1/teams/{id}`. One that an agentable uses stays. Its agents stay in any case.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TeamId;
use houston_protocol::schema;

use crate::agents::unless_used;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/teams/{id}",
    tag = "teams",
    operation_id = "delete_team",
    summary = "Deletes a team",
    params(
        ("id" = schema::TeamId, Path)
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 409, description = "`in_use`")
    ),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TeamId>,
) -> Result<StatusCode, ApiError> {
    unless_used("team", app.store().delete_team(caller.tenant, id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}
