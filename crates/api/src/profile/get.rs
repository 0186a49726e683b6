//! `GET /v1/users/{id}/profile`: the profile of a user.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::time::Time;
use houston_protocol::user::ProfileResponse;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/users/{id}/profile" => get,
    tag = "users",
    operation_id = "get_profile",
    summary = "Get the profile of a user.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 200, description = "The profile.", body = ProfileResponse)
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user_id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let (profile, updated_at) = app.store(caller).profile(user_id).await?;
    Ok(Json(ProfileResponse { user_id, profile, updated_at: updated_at.map(Time) }))
}
