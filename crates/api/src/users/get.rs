//! `GET /v1/users/{id}`: one user.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::users::read;

endpoint! {
    GET: get "/v1/users/{id}" => get,
    tag = "users",
    operation_id = "get_user",
    summary = "Get a user.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 200, description = "The user.", body = houston_protocol::user::UserResponse)
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(read(&app, caller, id).await?))
}
