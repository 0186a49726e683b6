//! `POST /v1/{kinds}/{id}/reset`: its model begins anew. What was said stays in the thread and in the closed session.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};

use crate::auth::Caller;
use crate::body::Wish;
use crate::error::ApiError;
use crate::place::Place;
use crate::state::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Body {
    /// Whether its notes and learnings are deleted, too.
    knowledge: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    id: String,
    /// Positions of the history that models no longer see.
    closed_entries: i64,
    deleted_notes: u64,
    deleted_learnings: u64,
}

pub(crate) async fn reset(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Wish(request): Wish<Body>,
) -> Result<impl IntoResponse, ApiError> {
    app.confirm(caller, &place).await?;
    let done =
        app.store().reset(caller.tenant, place.id, request.value.knowledge, app.state.ids.next()).await;
    let done = done.map_err(|error| match error {
        houston_store::Error::RunOpen { run } => ApiError::RunOpen { run },
        error => error.into(),
    })?;
    Ok(Json(Shown {
        id: place.shown(),
        closed_entries: done.closed_entries,
        deleted_notes: done.notes,
        deleted_learnings: done.learnings,
    }))
}
