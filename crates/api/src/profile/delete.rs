//! `DELETE /v1/users/{id}/profile`: empties all lists of the profile.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::UserId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/users/{id}/profile" => delete,
    tag = "users",
    operation_id = "delete_profile",
    summary = "Empty all lists of a user's profile.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")
    ),
    responses(
        (status = 204, description = "The profile is empty.")
    ),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_profile(user).await?;
    Ok(StatusCode::NO_CONTENT)
}
