//! `POST /v1/{kinds}`: creates an agentable of a kind that users may create: a goal, or a kind of `jobs/agents`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_domain::id::AgentableId;
use houston_protocol::agentable::{AgentableResponse, CreateAgentable};
use houston_protocol::time::Time;
use houston_store::agentable::NewAgentable;
use rust_decimal::Decimal;

use crate::agentable_path::KindPath;
use crate::agentables::{check_description, serving, tools};
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

/// The title of the new agentable; empty if the kind generates titles and none is given.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when the title is missing and the kind generates none, or when it is too long.
fn title<'t>(kind: &KindPath, given: Option<&'t str>) -> Result<&'t str, ApiError> {
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
    summary = "Create an agentable.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateAgentable,
    responses(
        (status = 201, description = "The new agentable.", body = AgentableResponse),
        (status = 409, description = "`not_creatable`: agentables of this kind are created by agents or with their user.")
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: KindPath,
    request: Creation<CreateAgentable>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    if !kind.user_creatable {
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
        id: id.public_id(&kind.name),
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
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, &format!("/v1/{}s", kind.name))
}
