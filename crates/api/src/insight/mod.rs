//! Why an agentable does what it does, for people: `GET /v1/{kinds}/{id}/state`, what a model would be sent
//! (`…/prompt`) and what it may call (`…/tools`).

pub(crate) mod state;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::schema;
use serde_json::Value;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::explain::Question;
use crate::agentable_path::AgentablePath;
use crate::state::App;

/// The exact prompt, by parts and by sections.
#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/prompt",
    tag = "insight",
    operation_id = "get_prompt",
    summary = "What a model would be sent",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The prompt", body = schema::Prompt)
    ),
)]
pub(crate) async fn prompt(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    answer(&app, caller, &place, Question::Prompt).await
}

/// Every tool there is, and whether it may be called.
#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/tools",
    tag = "insight",
    operation_id = "get_tools",
    summary = "Which tools may be called, and why not the others",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    responses(
        (status = 200, description = "The tools", body = schema::Tools)
    ),
)]
pub(crate) async fn tools(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    answer(&app, caller, &place, Question::Tools).await
}

async fn answer(
    app: &App,
    caller: Caller,
    place: &AgentablePath,
    question: Question,
) -> Result<Json<Value>, ApiError> {
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    // The prompt of a long conversation takes long to put together.
    let answer = app.state.explain.ask(question, agentable);
    app.offload.drive(async move { Ok(Json(answer.await?)) }).await
}
