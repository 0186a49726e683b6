//! `/v1/agents/{id}/guards`: the guards of an agent.

use houston_domain::id::AgentId;
use houston_store::guards::GuardOwner;

use super::guards;
use crate::agentable_path::Id;

guards! {
    path: "/v1/agents/{id}/guards",
    "get_guards_of_agent": "Get the guards of an agent; `{}`: there are none.",
    "set_guards_of_agent": "Replace the guards of an agent; `{}` removes them. They can only tighten what the layers above allow.",
    params: (("id" = houston_protocol::schema::AgentId, Path, description = "Id of the agent.")),
    owner: |app, caller, Id(id) => Id<AgentId>| GuardOwner::Agent(id),
}
