//! `GET /v1/{kinds}/{id}/why` and `GET /v1/runs/{id}/why`: why an agentable, or a run, does not go on, and what to do.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::model::ModelError;
use houston_domain::why::Facts;
use houston_protocol::why::WhyResponse;
use houston_queue::{HintHealth, Lane, RedisState};

use crate::agentable_path::{AgentablePath, Id};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::insight::HIDDEN;
use crate::state::App;

endpoint! {
    AGENTABLE: get "/v1/{kinds}/{id}/why" => agentable,
    tag = "insight",
    operation_id = "explain_agentable",
    summary = "Explain why an agentable does not go on, and what to do.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses((status = 200, description = "The reasons, the one that decides first.", body = WhyResponse)),
}

pub(crate) async fn agentable(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let facts = facts(&app, caller, path.id, Lane::from(path.urgency)).await?;
    Ok(Json(WhyResponse::of(path.public_id(), &facts)))
}

endpoint! {
    RUN: get "/v1/runs/{id}/why" => run,
    tag = "insight",
    operation_id = "explain_run",
    summary = "Explain why a run does not go on, and what to do.",
    params(("id" = houston_protocol::schema::RunId, Path, description = "Id of the run.")),
    responses((status = 200, description = "The reasons of its agentable, the one that decides first; of a run that newer ones came after: how it ended.", body = WhyResponse)),
}

pub(crate) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let run = app.store(caller).run(id).await?;
    let facts = facts(&app, caller, run.agentable, Lane::from(app.urgency(&run.kind))).await?;
    let message =
        run.error_message.as_deref().map(|text| if caller.reads_contents() { text } else { HIDDEN });
    let error = run.error_code.as_deref().zip(message);
    let public_id = run.agentable.public_id(&run.kind);
    Ok(Json(WhyResponse::of_run(public_id, &facts, run.id, run.status, error)))
}

/// The facts about an agentable, and what this process knows of the health of the installation. Without the texts of
/// people, models and tools, if the caller may not read them.
async fn facts(app: &App, caller: Caller, id: AgentableId, lane: Lane) -> Result<Facts, ApiError> {
    let found = app.api_store().health().await?;
    let checked_at = found.checked_at;
    let mut health = found.facts();
    match HintHealth::new(app.state.redis.clone(), app.state.hints.health().clone()).state() {
        RedisState::Down { since } => health.redis_down_since = Some(since),
        RedisState::Up { since } if checked_at.is_some_and(|at| at < since) => health.forget_redis(),
        RedisState::Absent | RedisState::Up { .. } => {}
    }
    let mut facts = app.store(caller).why(id, lane.as_str(), health).await?;
    if !caller.reads_contents() {
        facts.questions.iter_mut().for_each(|question| HIDDEN.clone_into(&mut question.text));
        if let Some(error) = &mut facts.state.last_error {
            // This much says whether a circuit breaker is open.
            let is_breaker = ModelError::none_was_called(&error.message);
            let text = if is_breaker { ModelError::NOT_CALLED } else { HIDDEN };
            text.clone_into(&mut error.message);
        }
    }
    Ok(facts)
}
