//! `/v1/inbound-hooks`, and `/hooks/{id}`: addresses at which other programs post messages to an agentable.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod receive;
pub(crate) mod rotate;

use std::sync::Arc;

use houston_domain::id::{AgentableId, parse_prefixed, shard};
use houston_protocol::inbound_hook::InboundHookResponse;
use houston_protocol::time::Time;
use houston_store::inbound_hook::InboundHook;

use crate::error::ApiError;
use crate::state::App;

/// A hook without its secrets.
fn response(app: &App, hook: InboundHook) -> InboundHookResponse {
    let now = app.now();
    let (agentable, kind) = &hook.agentable;
    InboundHookResponse {
        id: hook.id,
        agentable_id: agentable.public_id(kind),
        name: hook.name,
        instructions: hook.instructions,
        path: format!("/hooks/{}", hook.id),
        old_secret_until: hook.old_until.filter(|until| *until > now).map(Time),
        created_at: Time(hook.created_at),
    }
}

/// The agentable with a public id, and its kind.
fn agentable(app: &App, id: &str) -> Option<(AgentableId, String)> {
    let kind = id.rsplit_once('_').map_or("", |(kind, _)| kind);
    let found = app.state.agent_types.get(kind)?;
    Some((parse_prefixed(kind, id).ok()?.into(), found.kind.clone()))
}

/// The app of the cell of an agentable.
fn cell_of(app: &Arc<App>, agentable: AgentableId) -> Arc<App> {
    app.with_shard(shard(agentable))
}

/// An id that is no agentable's.
fn no_agentable(wrong: impl FnOnce(&str) -> ApiError) -> ApiError {
    wrong("must be the id of an agentable, as in `goal_…`")
}
