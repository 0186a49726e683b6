//! Why an agentable does what it does, for people: `GET /v1/{kinds}/{id}/state`, what a model would be sent
//! (`…/prompt`) and what it may call (`…/tools`).

pub(crate) mod state;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::Value;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::explain::Question;
use crate::place::Place;
use crate::state::App;

/// The exact prompt, by parts and by sections.
pub(crate) async fn prompt(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    answer(&app, caller, &place, Question::Prompt).await
}

/// Every tool there is, and whether it may be called.
pub(crate) async fn tools(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    answer(&app, caller, &place, Question::Tools).await
}

async fn answer(
    app: &App,
    caller: Caller,
    place: &Place,
    question: Question,
) -> Result<Json<Value>, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    Ok(Json(app.state.explain.ask(question, agentable).await?))
}
