//! Teams: agents of one kind, and a router that picks one of them for each run.

use houston_domain::answering::Output;
use houston_domain::id::{AgentId, TeamId};
use houston_domain::team::Router;
use serde::{Deserialize, Serialize};

use crate::field::nullable;
use crate::time::Time;

/// A team.
///
/// ```json
/// {"id": "team_0190…", "name": "Support", "kind": "goal", "description": "", "agents": ["agent_0190…"],
///  "default_agent_id": "agent_0190…", "router": {"by": "model"}, "version": 1,
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TeamResponse {
    pub id: TeamId,
    /// Unique in the tenant.
    pub name: String,
    /// The kind of its agents, as in `goal`.
    pub kind: String,
    pub description: String,
    /// Its agents.
    pub agents: Vec<AgentId>,
    /// The agent that answers when no rule matches, or the model cannot pick one.
    pub default_agent_id: AgentId,
    /// How it picks the agent that answers a run.
    pub router: Router,
    /// The form of its answers, whichever agent answers; absent if it is that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Increases with each change.
    pub version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Creates or changes a team: given fields are set, others stay. A new team needs `name`, `agents` and `router`.
///
/// ```json
/// {"name": "Support", "agents": ["agent_0190…"],
///  "router": {"by": "rules", "rules": [{"when": {"prefix": "/bill"}, "agent_id": "agent_0190…"}]}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TeamSettingsRequest {
    /// 1 to 100 characters, unique in the tenant.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: Option<String>,
    /// At most 2,000 bytes.
    pub description: Option<String>,
    /// 1 to 20 agents of one kind; `teams.limits.agents_per_team` may set another maximum.
    pub agents: Option<Vec<AgentId>>,
    /// One of `agents`; the first if absent.
    pub default_agent_id: Option<AgentId>,
    /// How it picks the agent that answers a run.
    pub router: Option<Router>,
    /// The form of its answers, whichever agent answers. `null` leaves it to the agent.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub output: Option<Option<Output>>,
    /// For a change: fails unless the team has this version.
    pub version: Option<i64>,
}
