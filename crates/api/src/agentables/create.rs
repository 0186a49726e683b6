//! `POST /v1/{kinds}`: makes an agentable of a kind people begin: a goal, or whatever `jobs/agents` has.

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
use crate::place::Kind;
use crate::rfc3339::Time;
use crate::state::App;

/// It stands in every prompt of the agentable.
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
    kind: Kind,
    request: Creation<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    if !kind.begun_by_people {
        return Err(ApiError::NotCreatable { kind: kind.name, made_with_user: kind.made_with_user });
    }
    check_line("/title", &body.title, 200)?;
    check_text("/description", &body.description)?;
    check_size("/description", body.description.len(), MAX_DESCRIPTION_BYTES)?;
    let id: AgentableId = app.state.ids.next();
    let new = NewAgentable {
        id,
        user: body.user_id,
        kind: &kind.name,
        title: &body.title,
        description: &body.description,
        status: kind.initial_status.as_deref(),
        created_at: app.now(),
    };
    let shown = Shown {
        cost: houston_store::cost::Cost::NOTHING.into(),
        id: id.shown(&kind.name),
        user_id: new.user,
        parent_id: None,
        title: new.title.to_owned(),
        description: new.description.to_owned(),
        status: new.status.map(str::to_owned),
        run_id: None,
        created_at: Time(new.created_at),
    };
    let response = serde_json::to_value(shown).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let (stored, replayed) = made(app.store().create_agentable(caller.tenant, &new, key, &response).await?)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/{}s/{}", kind.name, shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
