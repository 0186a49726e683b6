//! `POST /v1/users`: makes a user, and with them one of each kind that is made with users.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::user::User;
use serde::Deserialize;

use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::state::App;
use crate::users::Shown;

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
    let kinds = app.state.agent_types.values().filter(|kind| kind.made_with_user);
    let own: Vec<NewAgentable<'_>> = kinds
        .map(|kind| NewAgentable {
            id: app.state.ids.next(),
            user: user.id,
            kind: &kind.kind,
            title: &user.name,
            description: "",
            status: kind.initial_status(),
            tools: None,
            created_at: user.created_at,
        })
        .collect();
    let shown = Shown::new(user.clone(), own.iter().map(|own| (own.kind, own.id)));
    let response = serde_json::to_value(shown).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let created = app.store().create_user(caller.tenant, &user, &own, key, &response).await;
    let (stored, replayed) = made(created.map_err(|error| match error {
        Error::Exists { what } => ApiError::AlreadyExists { what, field: "external_id" },
        error => error.into(),
    })?)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/users/{}", shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
