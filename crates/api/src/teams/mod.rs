//! `/v1/teams`: agents of one kind and a router that picks one of them for each run. History, notes and learnings belong to
//! the agentable and are the same for all of them; role, tools, model and limits are those of the picked agent.

mod body;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;

use houston_protocol::team::TeamResponse;
use houston_store::team::Team;

use houston_protocol::time::Time;

/// The response for a team.
pub(crate) fn response(team: Team) -> TeamResponse {
    TeamResponse {
        id: team.id,
        name: team.name,
        kind: team.kind,
        description: team.description,
        agents: team.agents,
        default_agent_id: team.fallback,
        router: team.router,
        output: team.output,
        version: team.version,
        created_at: Time(team.created_at),
        updated_at: Time(team.updated_at),
    }
}
