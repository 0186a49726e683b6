//! `GET /v1/kinds`: all kinds, with the agents of the tenant for each.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_protocol::kind::{KindResponse, KindsResponse};
use houston_queue::Lane;
use houston_store::agent::AgentsOfKind;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::resources::agents::ensure_defaults;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST];

endpoint! {
    LIST: get "/v1/kinds" for TENANT => list,
    tag = "agents",
    operation_id = "list_kinds",
    summary = "List the kinds of agentables, with their tools, their limits and how many agents there are for each.",
    responses((status = 200, description = "All kinds, by name.", body = KindsResponse)),
}

async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<impl IntoResponse, ApiError> {
    ensure_defaults(&app, caller).await?;
    let agents = app.store(caller).agents_by_kind().await?;
    let of = |kind: &AgentType| {
        let own = agents.iter().find(|of_kind| of_kind.kind == kind.kind);
        response(kind, app.state.agents.limits.with(kind.limits), own)
    };
    let data: Vec<KindResponse> = app.state.agent_types.values().map(of).collect();
    Ok(Json(KindsResponse { data }))
}

fn response(kind: &AgentType, limits: Limits, agents: Option<&AgentsOfKind>) -> KindResponse {
    let created_by = match kind {
        kind if kind.made_with_user => "user",
        kind if kind.user_creatable() => "clients",
        _ => "agents",
    };
    KindResponse {
        kind: kind.kind.clone(),
        role: kind.prompt.role.clone(),
        conversational: kind.conversational,
        created_by: created_by.to_owned(),
        lane: Lane::from(kind.urgency).as_str().to_owned(),
        statuses: kind.statuses.clone(),
        tools: kind.tools.clone(),
        creates: kind.creates.clone(),
        use_case: kind.use_case.clone(),
        limits: limits.into(),
        agents: agents.map_or(0, |of_kind| of_kind.agents),
        enabled_agents: agents.map_or(0, |of_kind| of_kind.enabled),
        default_agent_id: agents.and_then(|of_kind| of_kind.default_agent),
    }
}
