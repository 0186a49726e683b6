//! `GET /v1/agents/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AgentId;

use super::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Id;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<AgentId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(Shown::from(app.store().agent(caller.tenant, id).await?)))
}
