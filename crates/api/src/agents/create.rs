//! `POST /v1/agents`: makes an agent of a kind. What is not given is as the file of the kind says.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::agent_settings::AgentSettings;
use houston_domain::agentable::AgentType;
use houston_store::agent::Agent;

use super::body::Body;
use super::sources::{like, short};
use super::{Shown, ensure_defaults, name_taken};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::state::App;

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: mut body, key } = request;
    let kind = kind(&app, body.kind.take())?;
    let name = body.name.take().ok_or_else(|| ApiError::field("/name", "missing field `name`"))?;
    Body::check_name(&name)?;
    if body.version.is_some() {
        return Err(ApiError::field("/version", "is for changes: a new agent is of version 1"));
    }
    if app.state.agent_types.contains_key(&name) {
        return Err(ApiError::AlreadyExists { what: "agent", field: "name" });
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
        settings: body.apply(AgentSettings::of(kind), kind, &app.state.agents)?,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    ensure_defaults(&app, caller.tenant).await?;
    let response = serde_json::to_value(Shown::from(agent.clone())).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let created =
        app.store().create_agent(caller.tenant, &agent, key, &response).await.map_err(name_taken)?;
    let (stored, replayed) = made(created)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/agents/{}", shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}

fn kind(app: &App, given: Option<String>) -> Result<&AgentType, ApiError> {
    let given = given.ok_or_else(|| ApiError::field("/kind", "missing field `kind`"))?;
    app.state.agent_types.get(&given).ok_or_else(|| {
        let known: Vec<&str> = app.state.agent_types.keys().map(String::as_str).collect();
        let (given, known, like) = (short(&given), known.join(", "), like(&given, &known));
        ApiError::field("/kind", format!("there is no kind `{given}`; there are: {known}{like}"))
    })
}
