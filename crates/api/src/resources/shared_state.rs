//! The state that an agentable shares with front ends: one JSON document, if its kind declares one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::question::schema::Mismatch;
use houston_domain::shared_state::SharedState;
use houston_protocol::agui::RunAgentInput;
use houston_store::shared_state::StateInput;
use serde_json::{Map, Value};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::AgentablePath;
use crate::request::body::Creation;
use crate::request::checks::check_storable_value;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[GET, CHANGE];

const NO_STATE: ApiError = ApiError::NotFound { what: "state of this kind" };

/// The most bytes of a client's own id of a run.
const MAX_RUN_ID_BYTES: usize = 200;

endpoint! {
    GET: get "/v1/{kinds}/{id}/shared-state" for AGENTABLE => get,
    tag = "agentables",
    operation_id = "get_shared_state",
    summary = "The state that an agentable shares with front ends: a JSON object that matches the schema of its kind.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable.")
    ),
    responses(
        (status = 200, description = "The state.", body = BTreeMap<String, houston_protocol::schema::AnyJson>)
    ),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    at(&app, caller, &path, i64::MAX).await?.map(Json).ok_or(NO_STATE)
}

endpoint! {
    CHANGE: patch "/v1/{kinds}/{id}/shared-state" for AGENTABLE => change,
    tag = "agentables",
    operation_id = "change_shared_state",
    summary = "Change the state that an agentable shares with front ends, by a merge patch (RFC 7386): `null` removes a field, a list is replaced.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = BTreeMap<String, houston_protocol::schema::AnyJson>,
    responses(
        (status = 200, description = "The state now. Open streams get a `STATE_DELTA`; a run that goes on reads it at its next attempt.", body = BTreeMap<String, houston_protocol::schema::AnyJson>)
    ),
}

async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    // A merge patch is idempotent, so the Idempotency-Key is ignored.
    Creation { value: patch, key: _ }: Creation<Map<String, Value>>,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &path).await?;
    let declared = declared(&app, &path).ok_or(NO_STATE)?;
    let patch = Value::Object(patch);
    check_storable_value("", &patch)?;
    let state = put(&app, caller, &path, declared, ("", StateInput::Merge(&patch))).await?;
    Ok(Json(state))
}

/// What the kind declares.
fn declared<'a>(app: &'a App, path: &AgentablePath) -> Option<&'a SharedState> {
    app.state.agent_types.get(&path.kind)?.state.as_deref()
}

/// The state after the events up to the position `seq`; `None`: the kind has none.
pub(crate) async fn at(
    app: &App,
    caller: Caller,
    path: &AgentablePath,
    seq: i64,
) -> Result<Option<Value>, ApiError> {
    let Some(declared) = declared(app, path) else { return Ok(None) };
    let state = app.store(caller).shared_state(path.id, seq).await?;
    Ok(Some(state.unwrap_or_else(|| declared.initial.clone())))
}

/// Sets the state that an AG-UI client has before its run. What clients send that have none, `null` and `{}`, changes nothing.
///
/// # Errors
/// [`ApiError::InvalidRequest`] with the JSON Pointer, and the store's errors.
pub(crate) async fn given(
    app: &App,
    caller: Caller,
    path: &AgentablePath,
    input: &RunAgentInput,
) -> Result<(), ApiError> {
    let is_given = match &input.state {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let Some(declared) = declared(app, path).filter(|_| is_given) else { return Ok(()) };
    check_storable_value("/state", &input.state)?;
    declared.check(&input.state).map_err(|mismatch| mismatched("/state", &mismatch))?;
    let run = input.run_id.as_deref();
    if let Some(run) = run {
        crate::request::checks::check_text("/runId", run)?;
        crate::request::checks::check_size("/runId", run.len(), MAX_RUN_ID_BYTES)?;
    }
    put(app, caller, path, declared, ("/state", StateInput::Replace(&input.state, run))).await?;
    Ok(())
}

fn mismatched(at: &str, Mismatch { pointer, reason }: &Mismatch) -> ApiError {
    ApiError::field(&format!("{at}{pointer}"), reason.clone())
}

/// Changes the state, and sends it to the open streams. `at`: where the request has it.
async fn put(
    app: &App,
    caller: Caller,
    path: &AgentablePath,
    declared: &SharedState,
    (at, input): (&str, StateInput<'_>),
) -> Result<Value, ApiError> {
    let changed = app.store(caller).change_shared_state(path.id, declared, input).await?;
    let changed = changed.map_err(|mismatch| mismatched(at, &mismatch))?;
    if changed.event.is_some() {
        app.publish_nudge(path.id);
    }
    Ok(changed.state)
}
