//! `GET /v1/runs/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::runs::Shown;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(Shown::from(app.store().run(caller.tenant, id).await?)))
}
