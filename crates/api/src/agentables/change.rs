//! `PATCH /v1/{kinds}/{id}`: changes title, description and status, and, from the next run on, who answers (`agent_id` or
//! `team_id`; null for the default agent of the kind) and the tools it may call (`tools`, a subset of its kind's; null
//! for all of them).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_domain::settable::StatusChange;
use houston_protocol::agentable::UpdateAgentable;
use houston_store::agentable::AgentableChange;
use houston_store::serving::ServingChange;

use super::cancel::notify_workers;
use super::{check_description, responses, serving, tools};
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::check_line;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/{kinds}/{id}" => change,
    tag = "agentables",
    operation_id = "update_agentable",
    summary = "Change title, description, status, agent or tools of an agentable; fields not given stay as they are.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = UpdateAgentable,
    responses(
        (status = 200, description = "The changed agentable.", body = houston_protocol::agentable::AgentableResponse)
    ),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Change(body): Change<UpdateAgentable>,
) -> Result<impl IntoResponse, ApiError> {
    let answers = body.agent_id.is_some() || body.team_id.is_some();
    let describes = body.title.is_some() || body.description.is_some();
    if !answers && !describes && body.status.is_none() && body.tools.is_none() {
        let detail =
            "nothing to change: give at least one of title, description, status, agent_id, team_id, tools";
        return Err(ApiError::field("", detail));
    }
    body.title.as_deref().map_or(Ok(()), |title| check_line("/title", title, MAX_TITLE_CHARS))?;
    body.description.as_deref().map_or(Ok(()), check_description)?;
    let status = body.status.as_deref().map(|wanted| status_change(&app, &path, wanted)).transpose()?;
    let before = app.store(caller).agentable(&path.kind, path.id).await?;
    if let Some(names) = &body.tools {
        // A task may only use the tools its creator gave it; otherwise it could do more than the agent above it.
        if let Some((kind, parent)) = before.parent {
            let detail = format!(
                "cannot be changed here, they are inherited from {}; change its tools",
                parent.public_id(&kind)
            );
            return Err(ApiError::field("/tools", detail));
        }
        let names = names.as_deref().unwrap_or_default();
        tools::check(&app, caller, &path.kind, "/tools", names).await?;
    }
    let named = (body.agent_id.flatten(), body.team_id.flatten());
    let served_by = match answers {
        true => Some(serving::check(&app, caller, &path.kind, named).await?),
        false => None,
    };
    let change = AgentableChange {
        title: body.title,
        description: body.description,
        serving: ServingChange { served_by, tools: body.tools },
    };
    app.store(caller).change_agentable(path.id, &change).await?;
    match status {
        Some(StatusChange::Archive) => {
            let cancelled = app.store(caller).cancel_agentable(&path.kind, path.id, true).await?;
            notify_workers(&app, cancelled);
        }
        Some(StatusChange::Store(status)) => {
            app.store(caller).store_status(&path.kind, path.id, status.as_deref()).await?;
        }
        None => {}
    }
    let agentable = app.store(caller).agentable(&path.kind, path.id).await?;
    // `responses` returns one response per agentable.
    let response = responses(&app, caller, vec![agentable]).await?.pop();
    response.map(Json).ok_or(ApiError::NotFound { what: "agentable" })
}

/// # Errors
/// [`ApiError::InvalidRequest`] with the statuses that may be set.
fn status_change(app: &App, path: &AgentablePath, wanted: &str) -> Result<StatusChange, ApiError> {
    let unknown = || Err("cannot be set: this server has no such kind".to_owned());
    let kind = app.state.agent_types.get(&path.kind);
    let change = kind.map_or_else(unknown, |kind| kind.set_status(wanted));
    change.map_err(|reason| ApiError::field("/status", reason))
}
