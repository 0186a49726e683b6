//! `PATCH /v1/{kinds}/{id}/shared-state`: a merge patch.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::shared_state::StateInput;
use serde_json::{Map, Value};

use super::{NO_STATE, declared, put};
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::messages::post::check_storable_value;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/{kinds}/{id}/shared-state" => change,
    tag = "agentables",
    operation_id = "change_shared_state",
    summary = "Change the state that an agentable shares with front ends, by a merge patch (RFC 7386): `null` removes a field, a list is replaced.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = BTreeMap<String, houston_protocol::schema::AnyJson>,
    responses(
        (status = 200, description = "The state now. Open streams get a `STATE_DELTA`; a run that goes on reads it at its next attempt.", body = BTreeMap<String, houston_protocol::schema::AnyJson>)
    ),
}

pub(crate) async fn change(
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
