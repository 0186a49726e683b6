//! `POST /v1/teams`: makes a team of agents that are there.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::id::AgentId;
use houston_domain::team::{Router, RouterKind};
use houston_store::team::Team;

use super::Shown;
use super::body::Body;
use crate::agents::{ensure_defaults, name_taken};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::state::App;

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    body.check_complete()?;
    ensure_defaults(&app, caller.tenant).await?;
    let now = app.now();
    // Everything of it is given, or has a default.
    let empty = Team {
        id: app.state.ids.next(),
        kind: String::new(),
        name: String::new(),
        description: String::new(),
        agents: Vec::new(),
        fallback: AgentId(uuid::Uuid::nil()),
        router: Router { by: RouterKind::Rules, rules: Vec::new() },
        version: 1,
        created_at: now,
        updated_at: now,
    };
    let team = body.apply(&app, caller.tenant, empty).await?;
    let response = serde_json::to_value(Shown::from(team.clone())).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let created = app.store().create_team(caller.tenant, &team, key, &response).await.map_err(name_taken)?;
    let (stored, replayed) = made(created)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/teams/{}", shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
