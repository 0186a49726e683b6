//! The state that an agentable shares with front ends: one JSON document, if its kind declares one.

use houston_domain::shared_state::SharedState;
use houston_protocol::agui::RunAgentInput;
use houston_store::shared_state::StateInput;
use serde_json::{Map, Value};

use crate::request::prelude::*;

endpoints! {
    get "/v1/{kinds}/{id}/shared-state" for AGENTABLE => get,
    "get_shared_state" in "agentables": "The state that an agentable shares with front ends: a JSON object that matches the schema of its kind.",
    200 "The state." [BTreeMap<String, houston_protocol::schema::AnyJson>];

    patch "/v1/{kinds}/{id}/shared-state" for AGENTABLE => change,
    "change_shared_state" in "agentables": "Change the state that an agentable shares with front ends, by a merge patch (RFC 7386): `null` removes a field, a list is replaced.",
    body [BTreeMap<String, houston_protocol::schema::AnyJson>],
    200 "The state now. Open streams get a `STATE_DELTA`; a run that goes on reads it at its next attempt." [BTreeMap<String, houston_protocol::schema::AnyJson>];
}

const NO_STATE: ApiError = ApiError::NotFound("state of this kind");

/// The most bytes of a client's own id of a run.
const MAX_RUN_ID_BYTES: usize = 200;

async fn get(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    at(&ctx, &path, i64::MAX).await?.map(Json).ok_or(NO_STATE)
}

async fn change(
    ctx: Ctx,
    path: AgentablePath,
    Sent(patch): Sent<Map<String, Value>>,
) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    let declared = declared(&ctx, &path).ok_or(NO_STATE)?;
    let patch = Value::Object(patch);
    check_storable_value("", &patch)?;
    let state = put(&ctx, &path, declared, ("", StateInput::Merge(&patch))).await?;
    Ok(Json(state))
}

/// What the kind declares.
fn declared<'a>(app: &'a App, path: &AgentablePath) -> Option<&'a SharedState> {
    app.state.agent_types.get(&path.kind)?.state.as_deref()
}

/// The state after the events up to the position `seq`; `None`: the kind has none.
pub(crate) async fn at(ctx: &Ctx, path: &AgentablePath, seq: i64) -> Result<Option<Value>> {
    let Some(declared) = declared(ctx, path) else { return Ok(None) };
    let state = ctx.store().shared_state(path.id, seq).await?;
    Ok(Some(state.unwrap_or_else(|| declared.initial.clone())))
}

/// Sets the state that an AG-UI client has before its run. What clients send that have none, `null` and `{}`, changes nothing.
///
/// # Errors
/// [`ApiError::InvalidRequest`] with the JSON Pointer, and the store's errors.
pub(crate) async fn given(ctx: &Ctx, path: &AgentablePath, input: &RunAgentInput) -> Result<()> {
    let is_given = match &input.state {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let Some(declared) = declared(ctx, path).filter(|_| is_given) else { return Ok(()) };
    check_storable_value("/state", &input.state)?;
    declared.check(&input.state).map_err(|mismatch| mismatch.below("/state"))?;
    let run = input.run_id.as_deref();
    if let Some(run) = run {
        check_bytes("/runId", run, MAX_RUN_ID_BYTES)?;
    }
    put(ctx, path, declared, ("/state", StateInput::Replace(&input.state, run))).await?;
    Ok(())
}

/// Changes the state, and sends it to the open streams. `at`: where the request has it.
async fn put(
    ctx: &Ctx,
    path: &AgentablePath,
    declared: &SharedState,
    (at, input): (&str, StateInput<'_>),
) -> Result<Value> {
    let changed = ctx.store().change_shared_state(path.id, declared, input).await?;
    let changed = changed.map_err(|mismatch| mismatch.below(at))?;
    if changed.event.is_some() {
        ctx.publish_nudge(path.id);
    }
    Ok(changed.state)
}
