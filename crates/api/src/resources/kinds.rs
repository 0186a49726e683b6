//! `GET /v1/kinds`: all kinds, with the agents of the tenant for each.

use houston_domain::agent::limits::Limits;
use houston_domain::agentable::AgentType;
use houston_protocol::kind::{KindResponse, KindsResponse};
use houston_queue::Lane;
use houston_store::agent::AgentsOfKind;

use crate::request::prelude::*;
use crate::resources::agents::ensure_defaults;

endpoints! {
    get "/v1/kinds" for TENANT => list,
    "list_kinds" in "agents": "List the kinds of agentables, with their tools, their limits and how many agents there are for each.",
    200 "All kinds, by name." [KindsResponse];
}

async fn list(ctx: Ctx) -> Result<impl IntoResponse> {
    ensure_defaults(&ctx).await?;
    let agents = ctx.store().agents_by_kind().await?;
    let of = |kind: &AgentType| {
        let own = agents.iter().find(|of_kind| of_kind.kind == kind.kind);
        response(kind, ctx.state.agents.limits.with(kind.limits), own)
    };
    let data: Vec<KindResponse> = ctx.state.agent_types.values().map(of).collect();
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
