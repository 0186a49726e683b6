//! `PATCH /v1/{kinds}/{id}`: says who answers from the next run on, and with what. `agent_id` puts an agent in the place
//! of whoever answered, `team_id` a team; null means the default agent of the kind. `tools` are those of its kind that
//! it may call; null means all of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{AgentId, TeamId};
use houston_store::serving::ServingChange;
use serde::{Deserialize, Deserializer};

use super::{Shown, serving, tools};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::place::Place;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    #[serde(default, deserialize_with = "given")]
    agent_id: Option<Option<AgentId>>,
    #[serde(default, deserialize_with = "given")]
    team_id: Option<Option<TeamId>>,
    #[serde(default, deserialize_with = "given")]
    tools: Option<Option<Vec<String>>>,
}

/// Tells null from nothing.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: body, key: _ }: Creation<Body>,
) -> Result<impl IntoResponse, ApiError> {
    let answers = body.agent_id.is_some() || body.team_id.is_some();
    if !answers && body.tools.is_none() {
        return Err(ApiError::field("", "nothing changes: give agent_id, team_id or tools"));
    }
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
    let change = ServingChange { served_by, tools: body.tools };
    app.store().change_serving(caller.tenant, place.id, &change).await?;
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let kind = app.state.agent_types.get(&agentable.kind);
    Ok(Json(Shown::new(agentable, kind)))
}
