//! `PATCH /v1/teams/{id}`: changes the given fields; with `version`, only if the team still has that version. The new
//! agents must have the same kind, because agentables of that kind may use the team.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TeamId;
use houston_protocol::team::TeamSettingsRequest;
use houston_store::agent::Changed;
use houston_store::team::Team;

use super::body;
use super::response;
use crate::agentable_path::Id;
use crate::agents::{name_taken, retry_on_conflict};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/teams/{id}" => change,
    tag = "teams",
    operation_id = "update_team",
    summary = "Change a team; fields not given stay as they are.",
    params(
        ("id" = houston_protocol::schema::TeamId, Path, description = "Id of the team.")
    ),
    request_body = TeamSettingsRequest,
    responses(
        (status = 200, description = "The changed team.", body = houston_protocol::team::TeamResponse),
        (status = 409, description = "`already_exists`: another team has the name; `stale_version`: the team has another version.")
    ),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TeamId>,
    Change(body): Change<TeamSettingsRequest>,
) -> Result<impl IntoResponse, ApiError> {
    if body::is_empty(&body) {
        let detail =
            "nothing to change: give at least one of name, description, agents, default_agent_id, router";
        return Err(ApiError::field("", detail));
    }
    let version = body.version;
    let changed = retry_on_conflict(version, || apply(&app, caller, id, body.clone())).await?;
    Ok(Json(response(changed)))
}

/// Reads the team, applies the change and writes it if the version is unchanged.
async fn apply(
    app: &App,
    caller: Caller,
    id: TeamId,
    body: TeamSettingsRequest,
) -> Result<Changed<Team>, ApiError> {
    let team = app.store(caller).team(id).await?;
    // The new settings are computed from what was read above: a concurrent change must not be overwritten.
    let version = Some(body.version.unwrap_or(team.version));
    let kind = team.kind.clone();
    let team = body::apply(body, app, caller, team).await?;
    if team.kind != kind {
        let detail =
            format!("must be of the kind `{kind}`, as the team is; create another team for another kind");
        return Err(ApiError::field("/agents", detail));
    }
    app.store(caller).change_team(&team, version).await.map_err(name_taken)
}
