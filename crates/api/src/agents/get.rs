//! `GET /v1/agents/{id}`: one agent.

use super::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/agents/{id}", tag: "agents", operation: "get_agent",
    summary: "Get an agent.",
    id: AgentId, "Id of the agent.",
    method: agent, body: houston_protocol::agent::AgentResponse, "The agent.",
}
