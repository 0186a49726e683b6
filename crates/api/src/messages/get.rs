//! `GET /v1/messages/{id}`: a message, and what became of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::MessageId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::messages::Shown;
use crate::place::Id;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<MessageId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(Shown::from(app.store().message(caller.tenant, id).await?)))
}
