//! `GET /v1/users/{id}/profile`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;

use super::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::rfc3339::Time;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user_id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    let (profile, updated_at) = app.store().profile(caller.tenant, user_id).await?;
    Ok(Json(Shown { user_id, profile, updated_at: updated_at.map(Time) }))
}
