//! `PATCH /v1/teams/{id}`: what is given changes, the rest stays; with `version`, only if nobody changed it since.
//! Its agents may become others, not of another kind: agentables of its kind may use it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::TeamId;
use houston_protocol::schema;
use houston_protocol::team::{TeamResponse, TeamSettingsRequest};
use houston_store::agent::Changed;
use houston_store::team::Team;

use super::body;
use super::response;
use crate::agents::{name_taken, until_changed};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    patch,
    path = "/v1/teams/{id}",
    tag = "teams",
    operation_id = "update_team",
    summary = "Changes a team",
    params(
        ("id" = schema::TeamId, Path)
    ),
    request_body = TeamSettingsRequest,
    responses(
        (status = 200, description = "The team", body = TeamResponse),
        (status = 409, description = "`already_exists`, `stale_version`")
    ),
)]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TeamId>,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: body, key: _ }: Creation<TeamSettingsRequest>,
) -> Result<impl IntoResponse, ApiError> {
    if body::is_empty(&body) {
        let told =
            "nothing changes: give at least one of name, description, agents, default_agent_id, router";
        return Err(ApiError::field("", told));
    }
    let version = body.version;
    let changed = until_changed(version, || apply(&app, caller, id, body.clone())).await?;
    Ok(Json(response(changed)))
}

/// Changes the team as it stands now.
async fn apply(
    app: &App,
    caller: Caller,
    id: TeamId,
    body: TeamSettingsRequest,
) -> Result<Changed<Team>, ApiError> {
    let team = app.store().team(caller.tenant, id).await?;
    // What is set goes by what was read here: changed meanwhile, it would be lost.
    let version = Some(body.version.unwrap_or(team.version));
    let kind = team.kind.clone();
    let team = body::apply(body, app, caller.tenant, team).await?;
    if team.kind != kind {
        let told = format!("must be of the kind `{kind}`, as the team is: make another team");
        return Err(ApiError::field("/agents", told));
    }
    app.store().change_team(caller.tenant, &team, version).await.map_err(name_taken)
}
