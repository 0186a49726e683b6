//! `GET /v1/teams/{id}`: one team.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TeamId;
use houston_protocol::schema;
use houston_protocol::team::TeamResponse;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/teams/{id}",
    tag = "teams",
    operation_id = "get_team",
    summary = "Get a team.",
    params(
        ("id" = schema::TeamId, Path, description = "Id of the team.")
    ),
    responses(
        (status = 200, description = "The team.", body = TeamResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TeamId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).team(id).await?)))
}
