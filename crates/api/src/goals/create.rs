//! `POST /v1/goals`: makes a goal for a user.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::id::{AgentableId, UserId};
use houston_store::agentable::NewAgentable;
use serde::Deserialize;

use crate::agentables::Shown;
use crate::auth::Caller;
use crate::body::{Creation, check_line, check_size, check_text};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::rfc3339::Time;
use crate::state::App;

const GOAL: &str = "goal";
/// It stands in every prompt of the goal.
const MAX_DESCRIPTION_BYTES: usize = 32 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    user_id: UserId,
    title: String,
    #[serde(default)]
    description: String,
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    check_line("/title", &body.title, 200)?;
    check_text("/description", &body.description)?;
    check_size("/description", body.description.len(), MAX_DESCRIPTION_BYTES)?;
    let id: AgentableId = app.state.ids.next();
    let goal = NewAgentable {
        id,
        user: body.user_id,
        kind: GOAL,
        title: &body.title,
        description: &body.description,
        status: app.state.agent_types.get(GOAL).and_then(|kind| kind.initial_status()),
        created_at: app.now(),
    };
    let shown = Shown {
        cost: houston_store::cost::Cost::NOTHING.into(),
        id: id.shown(GOAL),
        user_id: goal.user,
        title: goal.title.to_owned(),
        description: goal.description.to_owned(),
        status: goal.status.map(str::to_owned),
        run_id: None,
        created_at: Time(goal.created_at),
    };
    let response = serde_json::to_value(shown).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let created = app.store().create_agentable(caller.tenant, &goal, key, &response).await?;
    let (stored, replayed) = made(created)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/goals/{}", shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
