//! `POST /v1/users`: makes a user, and their user agent with them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::id::AgentableId;
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::user::User;
use serde::Deserialize;

use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::state::App;
use crate::users::{Shown, USER_AGENT};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    name: String,
    external_id: Option<String>,
    time_zone: Option<String>,
}

impl Body {
    fn check(&self) -> Result<(), ApiError> {
        check_line("/name", &self.name, 200)?;
        if let Some(external_id) = &self.external_id {
            check_line("/external_id", external_id, 255)?;
        }
        match &self.time_zone {
            Some(zone) if zone.parse::<chrono_tz::Tz>().is_err() => {
                Err(ApiError::field("/time_zone", "must be an IANA name, as `Europe/Berlin`"))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<Body>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    body.check()?;
    let user = User {
        id: app.state.ids.next(),
        external_id: body.external_id,
        name: body.name,
        time_zone: body.time_zone.unwrap_or_else(|| "UTC".to_owned()),
        created_at: app.now(),
        cost: houston_store::cost::Cost::NOTHING,
    };
    let agent_id: AgentableId = app.state.ids.next();
    let kind = app.state.agent_types.get(USER_AGENT);
    let agent = NewAgentable {
        id: agent_id,
        user: user.id,
        kind: USER_AGENT,
        title: &user.name,
        description: "",
        status: kind.and_then(|kind| kind.initial_status()),
        created_at: user.created_at,
    };
    let response = serde_json::to_value(Shown::new(user.clone(), agent_id)).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let created = app.store().create_user(caller.tenant, &user, &agent, key, &response).await;
    let (stored, replayed) = made(created.map_err(|error| match error {
        Error::Exists { what } => ApiError::AlreadyExists { what, field: "external_id" },
        error => error.into(),
    })?)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/users/{}", shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
