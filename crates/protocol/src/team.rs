//! What teams are set to.

use houston_domain::answering::Output;
use houston_domain::id::AgentId;
use houston_domain::team::Router;
use serde::{Deserialize, Serialize};

use crate::field::nullable;

/// Creates or changes a team: given fields are set, others stay. A new team needs `name`, `agents` and `router`.
///
/// ```json
/// {"name": "Support", "agents": ["agent_0190…"],
///  "router": {"by": "rules", "rules": [{"when": {"prefix": "/bill"}, "agent_id": "agent_0190…"}]}}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
