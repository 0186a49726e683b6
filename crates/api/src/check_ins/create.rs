//! `POST /v1/{kinds}/{id}/check-ins`: wakes an agent later, once, as it may wake itself with `schedule_check_in`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use chrono::{DateTime, Utc};
use houston_domain::check_in::{MAX_REASON_BYTES, Moment, WantedCheckIn};
use houston_domain::id::CheckInId;
use houston_domain::mode::Mode;
use houston_store::check_in::CheckIn;
use serde::{Deserialize, Serialize};

use super::Shown;
use crate::auth::Caller;
use crate::body::{Creation, check_size, check_text};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::place::Place;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    /// Where the user lives, as 2026-11-23T09:00, or with an offset, as 2026-11-23T09:00:00Z.
    at: Option<String>,
    /// So many minutes from now, instead.
    in_minutes: Option<u32>,
    /// What to do then: the agent reads it.
    reason: String,
}

/// What is kept under its key; whose it is, the path says.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    id: CheckInId,
    reason: String,
    due_at: DateTime<Utc>,
    created_at: DateTime<Utc>,
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    request: Creation<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: Body { at, in_minutes, reason }, key } = request;
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
    let kept = |set: &CheckIn| {
        let CheckIn { id, reason, due_at, created_at, .. } = set.clone();
        serde_json::to_value(Kept { id, reason, due_at, created_at }).unwrap_or_default()
    };
    let key = key.as_ref().map(Key::as_stored);
    let limits = &app.state.check_ins;
    let set =
        app.store().set_check_in(caller.tenant, (place.id, &place.kind), (id, &wanted), limits, key, kept);
    let set = set.await.map_err(|error| match error {
        houston_store::Error::InvalidMoment(invalid) => ApiError::field(pointer, invalid.to_string()),
        error => error.into(),
    })?;
    let (stored, replayed) = made(set)?;
    let Kept { id, reason, due_at, created_at } = stored_answer(stored)?;
    let shown =
        Shown::from(CheckIn { id, agentable: place.id, kind: place.kind, reason, due_at, created_at });
    Ok(answer((StatusCode::CREATED, Json(shown)), replayed))
}
