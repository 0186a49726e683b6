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
use serde_json::Value;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::explain::ExplainTopic;
use crate::state::App;

endpoint! {
    PROMPT: get "/v1/{kinds}/{id}/prompt" => prompt,
    tag = "insight",
    operation_id = "get_prompt",
    summary = "Get the prompt that the next model call would be sent.",
    description = "Needs the scope `read` besides `operate`: it has the conversation.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The prompt.", body = houston_protocol::schema::Prompt)
    ),
}

/// `GET /v1/{kinds}/{id}/prompt`: the exact prompt, by parts and by sections.
pub(crate) async fn prompt(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    respond(&app, caller, &path, ExplainTopic::Prompt).await
}

endpoint! {
    TOOLS: get "/v1/{kinds}/{id}/tools" => tools,
    tag = "insight",
    operation_id = "get_tools",
    summary = "List all tools, and for each whether it may be called or why not.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The tools.", body = houston_protocol::schema::Tools)
    ),
}

/// `GET /v1/{kinds}/{id}/tools`: every tool, and whether the agentable may call it.
pub(crate) async fn tools(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    respond(&app, caller, &path, ExplainTopic::Tools).await
}

endpoint! {
    GUARD: post "/v1/{kinds}/{id}/guards/explain" => guard,
    tag = "insight",
    operation_id = "explain_guards",
    summary = "Explain which rule of which layer would decide about a tool call.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = GuardedCall,
    responses(
        (status = 200, description = "The verdict, and each step that was looked at.", body = houston_protocol::schema::GuardExplanation)
    ),
}

/// `POST /v1/{kinds}/{id}/guards/explain`: what the guards would say of a call, and why.
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
