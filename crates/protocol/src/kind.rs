//! The kinds of agentables of the installation, which its files define.

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

/// What a run of a kind may use at most; an agent may have lower limits.
///
/// ```json
/// {"max_iterations": 20, "max_same_tool": 5, "max_duration_s": 300, "max_history_entries": 0, "max_output_tokens": 4000}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KindLimits {
    /// Model calls of one run.
    pub max_iterations: u32,
    /// Turns in a row that ask for the same single tool.
    pub max_same_tool: u32,
    /// Duration of one attempt, in seconds.
    pub max_duration_s: u64,
    /// Entries of the open session's history; 0: no limit.
    pub max_history_entries: u64,
    /// Tokens the model may write in one answer.
    pub max_output_tokens: u32,
}
