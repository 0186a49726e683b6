//! `GET /v1/teams/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TeamId;

use super::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TeamId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(Shown::from(app.store().team(caller.tenant, id).await?)))
}
