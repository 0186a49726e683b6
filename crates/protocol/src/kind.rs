//! The kinds of agentables of the installation, which its files define.

use houston_domain::agent::limits::KindLimits;
use houston_domain::id::AgentId;
use serde::{Deserialize, Serialize};

/// All kinds, by name: `{"data": [{"kind": "goal", …}, {"kind": "task", …}]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KindsResponse {
    pub data: Vec<KindResponse>,
}

/// A kind of agentables: what its file says, and how many agents of the tenant are for it.
///
/// ```json
/// {"kind": "goal", "role": "You are the assistant for one goal of your user.", "conversational": true,
///  "created_by": "clients", "lane": "interactive", "statuses": ["waiting", "working", "archived"],
///  "tools": ["send_message"], "creates": ["task"], "use_case": "agent",
///  "limits": {"max_iterations": 20, "max_same_tool": 5, "max_duration_s": 300, "max_history_entries": 0,
///             "max_output_tokens": 4000},
///  "agents": 2, "enabled_agents": 1, "default_agent_id": "agent_0190…"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KindResponse {
    /// Its name, and the prefix of the ids of its agentables.
    pub kind: String,
    /// Who its agents are, and what for, unless an agent says otherwise.
    pub role: String,
    /// Whether its agentables talk with a user.
    pub conversational: bool,
    /// Who creates its agentables: `clients`, `user` (one is created together with each user), or `agents`.
    pub created_by: String,
    /// The lane in which its runs wait: `interactive` or `background`.
    pub lane: String,
    /// The statuses of its agentables; the first is that of a new one. Empty: they have none.
    pub statuses: Vec<String>,
    /// The tools that its agents may have.
    pub tools: Vec<String>,
    /// The kinds of tasks that its agents may create.
    pub creates: Vec<String>,
    /// The use case whose model its agents use by default.
    pub use_case: String,
    pub limits: KindLimits,
    /// Agents of the tenant for this kind, its default agent included.
    pub agents: i64,
    /// Those of them that may answer runs.
    pub enabled_agents: i64,
    /// The agent that answers where no other is chosen.
    pub default_agent_id: Option<AgentId>,
}
