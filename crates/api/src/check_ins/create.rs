//! `POST /v1/{kinds}/{id}/check-ins`: wakes an agent later, once, as it may wake itself with `schedule_check_in`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::check_in::{MAX_REASON_BYTES, Moment, WantedCheckIn};
use houston_domain::mode::Mode;
use houston_protocol::check_in::{CheckInResponse, CreateCheckIn};
use houston_protocol::schema;
use houston_store::check_in::CheckIn;

use super::response;
use crate::auth::Caller;
use crate::body::{Creation, check_size, check_text};
use crate::error::ApiError;
use crate::idempotency::{Key, created, made, stored_body};
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/{kinds}/{id}/check-ins",
    tag = "check-ins",
    operation_id = "create_check_in",
    summary = "Wakes an agent later, once",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = CreateCheckIn,
    responses(
        (status = 201, description = "The check-in", body = CheckInResponse),
        (status = 409, description = "`no_check_ins`, `archived`, `full`")
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    request: Creation<CreateCheckIn>,
) -> Result<Response, ApiError> {
    let Creation { value: CreateCheckIn { at, in_minutes, reason }, key } = request;
    check_text("/reason", &reason)?;
    check_size("/reason", reason.len(), MAX_REASON_BYTES)?;
    if reason.trim().is_empty() {
        return Err(ApiError::field("/reason", "may not be empty"));
    }
    let pointer = if in_minutes.is_some() && at.is_none() { "/in_minutes" } else { "/at" };
    let when = Moment::asked(at.as_deref(), in_minutes)
        .map_err(|unclear| ApiError::field(pointer, unclear.to_string()))?;
    app.confirm(caller, &place).await?;
    let wakes =
        app.state.agent_types.get(&place.kind).is_some_and(|kind| kind.modes.contains(&Mode::AgentCheckIn));
    if !wakes {
        return Err(ApiError::NoCheckIns { kind: place.kind });
    }
    let (id, wanted) = (app.state.ids.next(), WantedCheckIn { when, reason });
    let body = |set: &CheckIn| stored_body(&response(set.clone()));
    let key = key.as_ref().map(Key::as_stored);
    let limits = &app.state.check_ins;
    let set =
        app.store().set_check_in(caller.tenant, (place.id, &place.kind), (id, &wanted), limits, key, body);
    let set = set.await.map_err(|error| match error {
        houston_store::Error::InvalidMoment(invalid) => ApiError::field(pointer, invalid.to_string()),
        houston_store::Error::Archived => ApiError::Archived { id: place.shown() },
        error => error.into(),
    })?;
    let (stored, replayed) = made(set)?;
    created(stored, replayed, "/v1/check-ins")
}
