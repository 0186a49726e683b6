//! `POST /v1/{kinds}`: makes an agentable of a kind people begin: a goal, or whatever `jobs/agents` has.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_domain::id::AgentableId;
use houston_protocol::agentable::{AgentableResponse, CreateAgentable};
use houston_protocol::time::Time;
use houston_store::agentable::NewAgentable;
use rust_decimal::Decimal;

use crate::agentables::{check_description, serving, tools};
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::error::ApiError;
use crate::idempotency::{Key, created, made, stored_body};
use crate::agentable_path::Kind;
use crate::state::App;

/// # Errors
/// When there is none, and the kind finds none by itself, or it is no line.
fn title<'t>(kind: &Kind, given: Option<&'t str>) -> Result<&'t str, ApiError> {
    match given {
        None | Some("") if kind.titles => Ok(""),
        None => Err(ApiError::field("/title", "missing field `title`")),
        Some(title) => check_line("/title", title, MAX_TITLE_CHARS).map(|()| title),
    }
}

#[utoipa::path(
    post,
    path = "/v1/{kinds}",
    tag = "agentables",
    operation_id = "create_agentable",
    summary = "Creates an agentable",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same request under the same key is answered the same, and creates nothing twice. 1 to 255 visible ASCII characters, kept for a day.")
    ),
    request_body = CreateAgentable,
    responses(
        (status = 201, description = "The agentable", body = AgentableResponse),
        (status = 409, description = "`not_creatable`")
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: Kind,
    request: Creation<CreateAgentable>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    if !kind.begun_by_people {
        return Err(ApiError::NotCreatable { kind: kind.name, made_with_user: kind.made_with_user });
    }
    let title = title(&kind, body.title.as_deref())?;
    check_description(&body.description)?;
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
    let response = AgentableResponse {
        result: None,
        cost: Some(Decimal::ZERO),
        unpriced_calls: 0,
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
    let body = stored_body(&response);
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store().create_agentable_for(caller.tenant, &new, served_by, key, &body).await?;
    let (stored, replayed) = made(done)?;
    created(stored, replayed, &format!("/v1/{}s", kind.name))
}
