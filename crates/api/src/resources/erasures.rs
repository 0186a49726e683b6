//! `/v1/erasures`: the audit records of erased users and agentables, with their progress. Each DELETE creates one; it is
//! kept and has no content of what was erased.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use houston_domain::id::AgentableId;
use houston_protocol::erasure::ErasureResponse;
use houston_protocol::time::Time;
use houston_store::erasure::{Erasure, Target};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::request::reads::get_by_id;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, GET];

endpoint! {
    LIST: get "/v1/erasures" for TENANT => list,
    tag = "erasures",
    operation_id = "list_erasures",
    summary = "List the erasures of the tenant, newest first.",
    params(
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of erasures.", body = houston_protocol::page::Page<houston_protocol::erasure::ErasureResponse>)),
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Erasures)?.map(Into::into));
    let erasures = app.store(caller).erasures(before, rows(limit)).await?;
    Ok(Json(Page::of(List::Erasures, limit, erasures, |row| row.id.0.as_u128(), response)))
}

get_by_id! {
    path: "/v1/erasures/{id}", access: TENANT, tag: "erasures", operation: "get_erasure",
    summary: "Get an erasure and its progress.",
    id: ErasureId, "Id of the erasure.",
    method: erasure, body: houston_protocol::erasure::ErasureResponse, "The erasure.",
}

/// The response for an erasure.
fn response(erasure: Erasure) -> ErasureResponse {
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
