//! Teams: agents of one kind, and a router that picks one of them for each run.

use houston_domain::id::{AgentId, TeamId};
use houston_domain::team::Router;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// A team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TeamResponse {
    #[schema(value_type = schema::TeamId)]
    pub id: TeamId,
    pub name: String,
    pub kind: String,
    pub description: String,
    #[schema(value_type = Vec<schema::AgentId>)]
    pub agents: Vec<AgentId>,
    /// The agent that answers when no rule holds, or the model cannot pick.
    #[schema(value_type = schema::AgentId)]
    pub default_agent_id: AgentId,
    #[schema(value_type = schema::Router)]
    pub router: Router,
    /// Grows with each change.
    pub version: i64,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
    #[schema(value_type = schema::Time)]
    pub updated_at: Time,
}

/// Creates or changes a team. What is given is set; the rest stays. A new team must have `name`, `agents` and `router`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TeamSettingsRequest {
    /// 1 to 100 characters, unique in the tenant.
    pub name: Option<String>,
    /// 2,000 bytes at most.
    pub description: Option<String>,
    /// 1 to 20 agents of one kind.
    #[schema(value_type = Option<Vec<schema::AgentId>>)]
    pub agents: Option<Vec<AgentId>>,
    /// One of them; the first, if not given.
    #[schema(value_type = Option<schema::AgentId>)]
    pub default_agent_id: Option<AgentId>,
    #[schema(value_type = Option<schema::Router>)]
    pub router: Option<Router>,
    /// Of a change: only if the team is of this version.
    pub version: Option<i64>,
}
