//! `GET /v1/{kinds}/{id}/stats`: a conversation in numbers; of a long one, those of its latest runs and messages.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Place;
use crate::state::App;

pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &place).await?;
    let bounds = app.state.config.conversation.bounds();
    Ok(Json(app.store().statistics(caller.tenant, place.id, bounds).await?))
}
