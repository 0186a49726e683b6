//! `GET /v1/{kinds}/{id}`: a goal, a task, a user agent, …

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::agentables::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::Place;
use crate::state::App;

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let kind = app.state.agent_types.get(&agentable.kind);
    Ok(Json(Shown::new(agentable, kind)))
}
