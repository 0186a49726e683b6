//! `POST /v1/agents`: makes an agent of a kind. What is not given is as the file of the kind says.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::agentable::AgentType;
use houston_protocol::agent::{AgentResponse, AgentSettingsRequest};
use houston_store::agent::Agent;

use super::body;
use super::sources::{like, short};
use super::{ensure_defaults, name_of_kind, name_taken, response};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::idempotency::{Key, created, made, stored_body};
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/agents",
    tag = "agents",
    operation_id = "create_agent",
    summary = "Creates an agent",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = AgentSettingsRequest,
    responses(
        (status = 201, description = "The agent", body = AgentResponse),
        (status = 409, description = "`already_exists`, `full`")
    ),
)]
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
        return Err(ApiError::field("/version", "is for changes: a new agent is of version 1"));
    }
    if app.state.agent_types.contains_key(&name) {
        return Err(name_of_kind(&app, caller.tenant, &name).await);
    }
    let enabled = body.enabled.unwrap_or(true);
    let now = app.now();
    let agent = Agent {
        id: app.state.ids.next(),
        kind: kind.kind.clone(),
        name,
        is_default: false,
        changed: true,
        enabled,
        settings: body::apply(body, AgentSettings::of(kind), kind, &app.state.agents)?,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    ensure_defaults(&app, caller.tenant).await?;
    let body = stored_body(&response(agent.clone()));
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store().create_agent(caller.tenant, &agent, key, &body).await.map_err(name_taken)?;
    let (stored, replayed) = made(done)?;
    created(stored, replayed, "/v1/agents")
}

fn kind(app: &App, given: Option<String>) -> Result<&AgentType, ApiError> {
    let given = given.ok_or_else(|| ApiError::field("/kind", "missing field `kind`"))?;
    app.state.agent_types.get(&given).ok_or_else(|| {
        let known: Vec<&str> = app.state.agent_types.keys().map(String::as_str).collect();
        let (given, known, like) = (short(&given), known.join(", "), like(&given, &known));
        ApiError::field("/kind", format!("there is no kind `{given}`; there are: {known}{like}"))
    })
}
