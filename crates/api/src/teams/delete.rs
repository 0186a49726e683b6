//! `DELETE /v1/teams/{id}`. A team that an agentable uses cannot be deleted. The agents of the team are not deleted.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::TeamId;

use crate::agentable_path::Id;
use crate::agents::check_deleted;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/teams/{id}" => delete,
    tag = "teams",
    operation_id = "delete_team",
    summary = "Delete a team that is not in use; its agents are kept.",
    params(
        ("id" = houston_protocol::schema::TeamId, Path, description = "Id of the team.")
    ),
    responses(
        (status = 204, description = "The team is deleted."),
        (status = 409, description = "`in_use`: an agentable uses the team.")
    ),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TeamId>,
) -> Result<StatusCode, ApiError> {
    check_deleted("team", app.store(caller).delete_team(id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}
