//! `POST /v1/{kinds}/{id}/cancel`: asks its open run to stop, and those of all its tasks, at any depth. Asking twice
//! is asking once; where nothing is open, nothing happens.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_store::cancel::Asked;
use serde::Serialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::place::{Owner, Place};
use crate::state::App;

/// What was asked to stop.
#[derive(Debug, Serialize)]
pub(crate) struct Stopping {
    data: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Run {
    run_id: RunId,
    #[serde(flatten)]
    owner: Owner,
}

impl Stopping {
    /// Tells whoever drives these runs, ahead of what Postgres tells them.
    pub(crate) fn tell(app: &App, asked: Vec<Asked>) -> Self {
        for one in &asked {
            app.cancel(one.agentable, one.run);
            app.ring(one.agentable, app.urgency(&one.kind));
        }
        let shown = |one: Asked| Run { run_id: one.run, owner: Owner { kind: one.kind, id: one.agentable } };
        Self { data: asked.into_iter().map(shown).collect() }
    }
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
) -> Result<impl IntoResponse, ApiError> {
    let asked = app.store().cancel_agentable(caller.tenant, &place.kind, place.id, false).await?;
    Ok((StatusCode::ACCEPTED, Json(Stopping::tell(&app, asked))))
}
