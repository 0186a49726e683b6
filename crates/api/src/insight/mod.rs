//! Debugging views of an agentable: its runtime state (`GET /v1/{kinds}/{id}/state`), the prompt of its next model call
//! (`…/prompt`) and its tools (`…/tools`).

pub(crate) mod state;
pub(crate) mod why;

/// In the place of a text that the caller may not read.
const HIDDEN: &str = "(to see this text needs the scope `read`)";

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::scope::Scope;
use houston_protocol::guard::GuardedCall;
use houston_protocol::schema;
use serde_json::Value;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::explain::ExplainTopic;
use crate::state::App;

/// `GET /v1/{kinds}/{id}/prompt`: the exact prompt, by parts and by sections.
#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/prompt",
    tag = "insight",
    operation_id = "get_prompt",
    summary = "Get the prompt that the next model call would be sent.",
    description = "Needs the scope `read` besides `operate`: it has the conversation.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The prompt.", body = schema::Prompt)
    ),
)]
pub(crate) async fn prompt(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    respond(&app, caller, &path, ExplainTopic::Prompt).await
}

/// `GET /v1/{kinds}/{id}/tools`: every tool, and whether the agentable may call it.
#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/tools",
    tag = "insight",
    operation_id = "get_tools",
    summary = "List all tools, and for each whether it may be called or why not.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The tools.", body = schema::Tools)
    ),
)]
pub(crate) async fn tools(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    respond(&app, caller, &path, ExplainTopic::Tools).await
}

/// `POST /v1/{kinds}/{id}/guards/explain`: what the guards would say of a call, and why.
#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/guards/explain",
    tag = "insight",
    operation_id = "explain_guards",
    summary = "Explain which rule of which layer would decide about a tool call.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = GuardedCall,
    responses(
        (status = 200, description = "The verdict, and each step that was looked at.", body = schema::GuardExplanation)
    ),
)]
pub(crate) async fn guard(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Creation { value: GuardedCall { tool, input }, key: _ }: Creation<GuardedCall>,
) -> Result<impl IntoResponse, ApiError> {
    let input = Value::Object(input);
    respond(&app, caller, &path, ExplainTopic::Guard { tool, input }).await
}

async fn respond(
    app: &App,
    caller: Caller,
    path: &AgentablePath,
    topic: ExplainTopic,
) -> Result<Json<Value>, ApiError> {
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    if matches!(topic, ExplainTopic::Prompt) {
        caller.needs(Scope::Read)?;
    }
    // Building the prompt of a long conversation takes too long for a thread of the runtime.
    let explanation = app.state.explain.get(topic, agentable);
    app.offload.drive(async move { Ok(Json(explanation.await?)) }).await
}
