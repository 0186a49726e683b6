//! `POST /v1/agents`: creates an agent of a kind. Fields that are not given come from the file of the kind.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::agentable::AgentType;
use houston_protocol::agent::AgentSettingsRequest;
use houston_store::agent::Agent;

use super::body;
use super::sources::{suggestion, truncated};
use super::{ensure_defaults, name_taken, reserved_name, response};
use crate::agentables::tools::with_own;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::models::sampling::check_agent;
use crate::state::App;

endpoint! {
    CREATE: post "/v1/agents" => create,
    tag = "agents",
    operation_id = "create_agent",
    summary = "Create an agent; fields that are not given come from the file of its kind.",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = AgentSettingsRequest,
    responses(
        (status = 201, description = "The new agent.", body = houston_protocol::agent::AgentResponse),
        (status = 409, description = "`already_exists`: another agent has the name; `full`: the tenant has the maximum number of agents.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<AgentSettingsRequest>,
) -> Result<Response, ApiError> {
    let Creation { value: mut body, key } = request;
    let kind = kind(&app, body.kind.take())?;
    let name = body.name.take().ok_or_else(|| ApiError::field("/name", "missing field `name`"))?;
    body::check_name(&name)?;
    if body.version.is_some() {
        return Err(ApiError::field("/version", "is only allowed in changes; a new agent has version 1"));
    }
    if app.state.agent_types.contains_key(&name) {
        return Err(reserved_name(&app, caller, &name).await);
    }
    let enabled = body.enabled.unwrap_or(true);
    let tools_of = with_own(&app, caller, kind, body.tools.as_deref()).await?;
    let settings = body::apply(body, AgentSettings::of(kind), &tools_of, &app.state.agents)?;
    check_agent(&app, &settings, |setting| format!("/sampling/{setting}")).await?;
    let now = app.now();
    let agent = Agent {
        id: app.state.ids.next(),
        kind: kind.kind.clone(),
        name,
        is_default: false,
        changed: true,
        enabled,
        settings,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    ensure_defaults(&app, caller).await?;
    let body = stored_body(&response(agent.clone()));
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).create_agent(&agent, key, &body).await.map_err(name_taken)?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/agents")
}

fn kind(app: &App, given: Option<String>) -> Result<&AgentType, ApiError> {
    let given = given.ok_or_else(|| ApiError::field("/kind", "missing field `kind`"))?;
    app.state.agent_types.get(&given).ok_or_else(|| {
        let kinds: Vec<&str> = app.state.agent_types.keys().map(String::as_str).collect();
        let (given, suggestion, kinds) = (truncated(&given), suggestion(&given, &kinds), kinds.join(", "));
        ApiError::field("/kind", format!("there is no kind `{given}`; there are: {kinds}{suggestion}"))
    })
}
