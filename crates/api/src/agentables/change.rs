//! `PATCH /v1/{kinds}/{id}`: says what it is called (`title`), what it is about (`description`), and who answers from the next run on, and with what. `agent_id` puts an agent in the place
//! of whoever answered, `team_id` a team; null means the default agent of the kind. `tools` are those of its kind that
//! it may call; null means all of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agentable::MAX_TITLE_CHARS;
use houston_protocol::agentable::{AgentableResponse, UpdateAgentable};
use houston_protocol::schema;
use houston_store::agentable::AgentableChange;
use houston_store::serving::ServingChange;

use super::{check_description, response, serving, tools};
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::error::ApiError;
use crate::agentable_path::AgentablePath;
use crate::state::App;

#[utoipa::path(
    patch,
    path = "/v1/{kinds}/{id}",
    tag = "agentables",
    operation_id = "update_agentable",
    summary = "Changes an agentable",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path)
    ),
    request_body = UpdateAgentable,
    responses(
        (status = 200, description = "The agentable", body = AgentableResponse)
    ),
)]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: body, key: _ }: Creation<UpdateAgentable>,
) -> Result<impl IntoResponse, ApiError> {
    let answers = body.agent_id.is_some() || body.team_id.is_some();
    let describes = body.title.is_some() || body.description.is_some();
    if !answers && !describes && body.tools.is_none() {
        let told = "nothing changes: give at least one of title, description, agent_id, team_id, tools";
        return Err(ApiError::field("", told));
    }
    body.title.as_deref().map_or(Ok(()), |title| check_line("/title", title, MAX_TITLE_CHARS))?;
    body.description.as_deref().map_or(Ok(()), check_description)?;
    let before = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    if let Some(names) = &body.tools {
        // It has what its creator let it have: widened here, it could do what the agent above it may not.
        if let Some((kind, parent)) = before.parent {
            let told =
                format!("were given by {}, which it works for, and stay: change those", parent.shown(&kind));
            return Err(ApiError::field("/tools", told));
        }
        tools::check(&app, &place.kind, "/tools", names.as_deref().unwrap_or_default())?;
    }
    let named = (body.agent_id.flatten(), body.team_id.flatten());
    let served_by = match answers {
        true => Some(serving::check(&app, caller, &place.kind, named).await?),
        false => None,
    };
    let change = AgentableChange {
        title: body.title,
        description: body.description,
        serving: ServingChange { served_by, tools: body.tools },
    };
    app.store().change_agentable(caller.tenant, place.id, &change).await?;
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let kind = app.state.agent_types.get(&agentable.kind);
    Ok(Json(response(agentable, kind)))
}
