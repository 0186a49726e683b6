//! `GET /v1/sessions/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::SessionId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::sessions::Shown;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<SessionId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(Shown::from(app.store().session(caller.tenant, id).await?)))
}
