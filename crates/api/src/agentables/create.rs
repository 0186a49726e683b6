//! `POST /v1/{kinds}`: makes an agentable of a kind people begin: a goal, or whatever `jobs/agents` has.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use houston_domain::agentable::MAX_DESCRIPTION_BYTES;
use houston_domain::id::{AgentId, AgentableId, TeamId, UserId};
use houston_store::agentable::NewAgentable;
use serde::Deserialize;

use crate::agentables::{Shown, serving, tools};
use crate::auth::Caller;
use crate::body::{Creation, check_line, check_size, check_text};
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::place::Kind;
use crate::rfc3339::Time;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    user_id: UserId,
    /// Left out or empty, in a kind that finds titles by itself.
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: String,
    agent_id: Option<AgentId>,
    team_id: Option<TeamId>,
    /// Of those of its kind; all of them when left out.
    tools: Option<Vec<String>>,
}

/// # Errors
/// When there is none, and the kind finds none by itself, or it is no line.
fn title<'t>(kind: &Kind, given: Option<&'t str>) -> Result<&'t str, ApiError> {
    match given {
        None | Some("") if kind.titles => Ok(""),
        None => Err(ApiError::field("/title", "missing field `title`")),
        Some(title) => check_line("/title", title, 200).map(|()| title),
    }
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
    let title = title(&kind, body.title.as_deref())?;
    check_text("/description", &body.description)?;
    check_size("/description", body.description.len(), MAX_DESCRIPTION_BYTES)?;
    let named = (body.agent_id, body.team_id);
    let served_by = serving::check(&app, caller, &kind.name, named).await?;
    if let Some(names) = &body.tools {
        tools::check(&app, &kind.name, "/tools", names)?;
    }
    let id: AgentableId = app.state.ids.next();
    let new = NewAgentable {
        id,
        user: body.user_id,
        kind: &kind.name,
        title,
        description: &body.description,
        status: kind.initial_status.as_deref(),
        tools: body.tools.as_deref(),
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
        agent_id: served_by.agent,
        team_id: served_by.team,
        tools: body.tools.clone(),
        created_at: Time(new.created_at),
    };
    let response = serde_json::to_value(shown).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let created = app.store().create_agentable_for(caller.tenant, &new, served_by, key, &response).await?;
    let (stored, replayed) = made(created)?;
    let shown: Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/{}s/{}", kind.name, shown.id))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
