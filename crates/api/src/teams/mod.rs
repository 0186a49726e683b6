//! `/v1/teams`: agents of one kind, and a router that picks one of them for each run. What the agentable knows (history,
//! notes, learnings) is the same for all of them; role, tools, model and limits are those of the one that was picked.

mod body;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;

use houston_domain::id::{AgentId, TeamId};
use houston_domain::team::Router;
use houston_store::team::Team;
use serde::{Deserialize, Serialize};

use crate::rfc3339::Time;

/// A team as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    id: TeamId,
    name: String,
    kind: String,
    description: String,
    agents: Vec<AgentId>,
    /// Who answers when no rule holds, or the model cannot pick.
    default_agent_id: AgentId,
    router: Router,
    version: i64,
    created_at: Time,
    updated_at: Time,
}

impl From<Team> for Shown {
    fn from(team: Team) -> Self {
        Self {
            id: team.id,
            name: team.name,
            kind: team.kind,
            description: team.description,
            agents: team.agents,
            default_agent_id: team.fallback,
            router: team.router,
            version: team.version,
            created_at: Time(team.created_at),
            updated_at: Time(team.updated_at),
        }
    }
}
