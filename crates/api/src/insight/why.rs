//! `GET /v1/{kinds}/{id}/why` and `GET /v1/runs/{id}/why`: why an agentable, or a run, does not go on, and what to do.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_domain::why::Facts;
use houston_protocol::schema;
use houston_protocol::why::WhyResponse;
use houston_queue::Lane;

use crate::agentable_path::{AgentablePath, Id};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::insight::HIDDEN;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/why",
    tag = "insight",
    operation_id = "explain_agentable",
    summary = "Explain why an agentable does not go on, and what to do.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses((status = 200, description = "The reasons, the one that decides first.", body = WhyResponse)),
)]
pub(crate) async fn agentable(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let facts = app.store(caller).why(path.id, Lane::from(path.urgency).as_str()).await?;
    Ok(Json(WhyResponse::of(path.public_id(), &readable(facts, caller))))
}

#[utoipa::path(
    get,
    path = "/v1/runs/{id}/why",
    tag = "insight",
    operation_id = "explain_run",
    summary = "Explain why a run does not go on, and what to do.",
    params(("id" = schema::RunId, Path, description = "Id of the run.")),
    responses((status = 200, description = "The reasons of its agentable, the one that decides first.", body = WhyResponse)),
)]
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let run = app.store(caller).run(id).await?;
    let lane = Lane::from(app.urgency(&run.kind)).as_str();
    let facts = app.store(caller).why(run.agentable, lane).await?;
    Ok(Json(WhyResponse::of(run.agentable.public_id(&run.kind), &readable(facts, caller))))
}

/// Without the texts of people, models and tools, if the caller may not read them.
fn readable(mut facts: Facts, caller: Caller) -> Facts {
    if !caller.reads_contents() {
        facts.questions.iter_mut().for_each(|question| HIDDEN.clone_into(&mut question.text));
        if let Some(error) = &mut facts.state.last_error {
            HIDDEN.clone_into(&mut error.message);
        }
    }
    facts
}
