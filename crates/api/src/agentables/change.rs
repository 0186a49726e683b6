//! `PATCH /v1/{kinds}/{id}`: says who answers from the next run on. `agent_id` puts an agent in the place of whoever
//! answered, `team_id` a team; null means the default agent of the kind.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{AgentId, TeamId};
use serde::{Deserialize, Deserializer};

use super::{Shown, serving};
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
    if body.agent_id.is_none() && body.team_id.is_none() {
        return Err(ApiError::field("", "nothing changes: give agent_id or team_id"));
    }
    app.confirm(caller, &place).await?;
    let named = (body.agent_id.flatten(), body.team_id.flatten());
    let served_by = serving::check(&app, caller, &place.kind, named).await?;
    app.store().assign(caller.tenant, place.id, served_by).await?;
    let agentable = app.store().agentable(caller.tenant, &place.kind, place.id).await?;
    let kind = app.state.agent_types.get(&agentable.kind);
    Ok(Json(Shown::new(agentable, kind)))
}
