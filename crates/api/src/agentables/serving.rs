//! Checks of `agent_id` and `team_id`: who answers for an agentable. Without either, the default agent of the kind
//! does.

use houston_domain::id::{AgentId, TeamId};
use houston_store::serving::ServedBy;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// Checks that the agent or team exists, is enabled and has the kind `kind`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it does not, or when both are given; the store's errors.
pub(super) async fn check(
    app: &App,
    caller: Caller,
    kind: &str,
    (agent, team): (Option<AgentId>, Option<TeamId>),
) -> Result<ServedBy, ApiError> {
    if agent.is_some() && team.is_some() {
        return Err(ApiError::field("/team_id", "cannot be combined with agent_id: give one of the two"));
    }
    if let Some(id) = agent {
        let found = app.store(caller).agents_among(&[id]).await?.pop();
        let found = found.ok_or_else(|| ApiError::field("/agent_id", format!("there is no agent {id}")))?;
        check_kind("/agent_id", &found.name, &found.kind, kind)?;
        if !found.enabled {
            let detail = format!("`{}` is disabled; enable it first", found.name);
            return Err(ApiError::field("/agent_id", detail));
        }
    }
    if let Some(id) = team {
        let found = app.store(caller).teams(Some(id), None, 1).await?.pop();
        let found = found.ok_or_else(|| ApiError::field("/team_id", format!("there is no team {id}")))?;
        check_kind("/team_id", &found.name, &found.kind, kind)?;
    }
    Ok(ServedBy { agent, team })
}

fn check_kind(pointer: &str, name: &str, has: &str, wanted: &str) -> Result<(), ApiError> {
    if has == wanted {
        return Ok(());
    }
    Err(ApiError::field(
        pointer,
        format!("`{name}` is of the kind `{has}`; it must be of the kind `{wanted}`"),
    ))
}
