//! Check-ins: times at which an agent is woken, set by the agent itself or over REST.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use houston_domain::check_in::{CheckInRequest, MAX_REASON_BYTES, Moment};
use houston_domain::id::CheckInId;
use houston_domain::mode::Mode;
use houston_protocol::check_in::{CheckInResponse, CreateCheckIn};
use houston_protocol::time::Time;
use houston_store::check_in::CheckIn;
use houston_store::rate::Whose;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{AgentablePath, Id, Owner};
use crate::request::body::Creation;
use crate::request::checks::{check_size, check_text};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::request::page::List;
use crate::request::rates::ask;
use crate::request::reads::list_of_agentable;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[CANCEL, LIST, CREATE];

list_of_agentable! {
    path: "/v1/{kinds}/{id}/check-ins", access: AGENTABLE, tag: "check-ins", operation: "list_check_ins",
    summary: "List the check-ins that have not started yet, newest first.",
    list: CheckIns, from: query => query.id(List::CheckIns)?.map(Into::into), position: |row| row.id.0.as_u128(),
    method: check_ins, body: houston_protocol::check_in::CheckInResponse, "A page of check-ins.",
}

endpoint! {
    CREATE: post "/v1/{kinds}/{id}/check-ins" for AGENTABLE => create,
    tag = "check-ins",
    operation_id = "create_check_in",
    summary = "Schedule a check-in: wake the agent once, at a time or after some minutes.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateCheckIn,
    responses(
        (status = 201, description = "The new check-in.", body = houston_protocol::check_in::CheckInResponse),
        (status = 409, description = "`no_check_ins`: the kind has none; `archived`: the agentable is archived; `full`: too many are scheduled."),
        (status = 429, description = "`rate_limited`: the user sends too many requests.")
    ),
}

async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    request: Creation<CreateCheckIn>,
) -> Result<Response, ApiError> {
    let Creation { value: CreateCheckIn { at, in_minutes, reason }, key } = request;
    check_text("/reason", &reason)?;
    check_size("/reason", reason.len(), MAX_REASON_BYTES)?;
    if reason.trim().is_empty() {
        return Err(ApiError::field("/reason", "must not be empty"));
    }
    let pointer = if in_minutes.is_some() && at.is_none() { "/in_minutes" } else { "/at" };
    let when = Moment::parse(at.as_deref(), in_minutes)
        .map_err(|unclear| ApiError::field(pointer, unclear.to_string()))?;
    app.confirm(caller, &path).await?;
    let wakes =
        app.state.agent_types.get(&path.kind).is_some_and(|kind| kind.modes.contains(&Mode::AgentCheckIn));
    if !wakes {
        return Err(ApiError::NoCheckIns { kind: path.kind });
    }
    ask(&app, caller, Whose::Agentable(path.id), key.as_ref()).await?;
    let (id, wanted) = (app.state.ids.beside(path.id), CheckInRequest { when, reason });
    let body = |set: &CheckIn| stored_body(&response(set.clone()));
    let key = key.as_ref().map(Key::as_stored);
    let limits = &app.state.check_ins;
    let set = app.store(caller).set_check_in((path.id, &path.kind), (id, &wanted), limits, key, body);
    let set = set.await.map_err(|error| match error {
        houston_store::Error::InvalidMoment(invalid) => ApiError::field(pointer, invalid.to_string()),
        houston_store::Error::Archived => ApiError::Archived { id: path.public_id() },
        error => error.into(),
    })?;
    let (stored, replayed) = unless_key_reused(set)?;
    created(stored, replayed, "/v1/check-ins")
}

endpoint! {
    CANCEL: delete "/v1/check-ins/{id}" for ROW => cancel,
    tag = "check-ins",
    operation_id = "delete_check_in",
    summary = "Delete a check-in that has not started yet.",
    params(
        ("id" = houston_domain::id::CheckInId, Path, description = "Id of the check-in.")
    ),
    responses(
        (status = 204, description = "The check-in is deleted.")
    ),
}

/// 404 once it has started.
async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<CheckInId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).cancel_check_in(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The response for a check-in.
fn response(check_in: CheckIn) -> CheckInResponse {
    let CheckIn { id, agentable, kind, reason, due_at, created_at } = check_in;
    CheckInResponse {
        id,
        owner: Owner { kind, id: agentable },
        reason,
        due_at: Time(due_at),
        created_at: Time(created_at),
    }
}
