//! `GET /v1/users/{id}`: one user.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::schema;
use houston_protocol::user::UserResponse;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;
use crate::users::read;

#[utoipa::path(
    get,
    path = "/v1/users/{id}",
    tag = "users",
    operation_id = "get_user",
    summary = "Get a user.",
    params(
        ("id" = schema::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 200, description = "The user.", body = UserResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(read(&app, caller, id).await?))
}
