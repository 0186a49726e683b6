//! `DELETE /v1/users/{id}/profile`: empties it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::UserId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
) -> Result<StatusCode, ApiError> {
    app.store().delete_profile(caller.tenant, user).await?;
    Ok(StatusCode::NO_CONTENT)
}
