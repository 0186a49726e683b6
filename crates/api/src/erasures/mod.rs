//! `/v1/erasures`: the audit records of erased users and agentables, with their progress. Each DELETE creates one; it is
//! kept and has no content of what was erased.

pub(crate) mod get;
pub(crate) mod list;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use houston_domain::id::AgentableId;
use houston_protocol::erasure::ErasureResponse;
use houston_protocol::time::Time;
use houston_store::erasure::{Erasure, Target};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// The response for an erasure.
pub(crate) fn response(erasure: Erasure) -> ErasureResponse {
    ErasureResponse {
        id: erasure.id,
        status: if erasure.completed_at.is_some() { "completed" } else { "running" }.to_owned(),
        resource_id: AgentableId(erasure.resource).public_id(&erasure.kind),
        resource: erasure.kind,
        api_key_id: erasure.key,
        deleted: erasure.deleted,
        requested_at: Time(erasure.requested_at),
        completed_at: erasure.completed_at.map(Time),
    }
}

/// Requests the erasure of `target` and returns 202 with the erasure; the same erasure if it was requested before.
pub(crate) async fn request(app: &App, caller: Caller, target: Target<'_>) -> Result<Response, ApiError> {
    let id = app.state.ids.beside(target.id());
    let requested = app.store(caller).request_erasure(target, id, Some(caller.key())).await?;
    for agentable in requested.agentables {
        app.forget(agentable);
    }
    for (agentable, run) in requested.stopped {
        app.publish_cancel(agentable, run);
    }
    let location = [(header::LOCATION, format!("/v1/erasures/{}", requested.erasure.id))];
    let body = Json(response(requested.erasure));
    Ok((StatusCode::ACCEPTED, location, body).into_response())
}
