//! `GET /v1/users/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::schema;
use houston_protocol::user::UserResponse;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;
use crate::users::show;

#[utoipa::path(
    get,
    path = "/v1/users/{id}",
    tag = "users",
    operation_id = "get_user",
    summary = "A user",
    params(
        ("id" = schema::UserId, Path)
    ),
    responses(
        (status = 200, description = "The user", body = UserResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(show(&app, caller, id).await?))
}
