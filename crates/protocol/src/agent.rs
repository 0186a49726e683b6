//! Agents: named configurations of a tenant's.

use houston_domain::agent::limits::LimitChanges;
use houston_domain::id::AgentId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentResponse {
    #[schema(value_type = schema::AgentId)]
    pub id: AgentId,
    pub name: String,
    pub kind: String,
    pub description: String,
    pub role: String,
    pub guidelines: String,
    pub tools: Vec<String>,
    pub use_case: String,
    pub provider: String,
    pub model: String,
    /// What it changes in the limits of its kind.
    #[schema(value_type = schema::LimitChanges)]
    pub limits: Map<String, Value>,
    pub enabled: bool,
    pub is_default: bool,
    /// Whether somebody changed what the file of its kind says; of one that is no default agent, true.
    pub changed: bool,
    /// Grows with each change.
    pub version: i64,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
    #[schema(value_type = schema::Time)]
    pub updated_at: Time,
}

/// Creates or changes an agent. What is given is set; the rest stays, and of a new agent is as the file of its kind says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSettingsRequest {
    /// 1 to 100 characters on one line, unique in the tenant. A new agent must have one.
    pub name: Option<String>,
    /// Of a new agent, which must have one; it cannot be changed.
    pub kind: Option<String>,
    /// 2,000 bytes at most.
    pub description: Option<String>,
    /// 1 to 6,000 characters.
    pub role: Option<String>,
    /// 6,000 characters at most.
    pub guidelines: Option<String>,
    /// Of those of its kind.
    pub tools: Option<Vec<String>>,
    pub use_case: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Accepts a model that the list of its provider does not have.
    #[serde(default)]
    pub allow_unlisted_model: bool,
    #[schema(value_type = Option<schema::LimitChanges>)]
    pub limits: Option<LimitChanges>,
    pub enabled: Option<bool>,
    /// Of a change: only if the agent is of this version.
    pub version: Option<i64>,
}

/// The kinds, by what became of their default agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResyncResponse {
    /// There was none.
    pub created: Vec<String>,
    /// They say now what their files say.
    pub updated: Vec<String>,
    /// They said so already.
    pub unchanged: Vec<String>,
    /// Somebody changed them: `reset` puts one back.
    pub kept: Vec<String>,
    /// Files of kinds that this server has not known since its start: a restart makes them known.
    pub needs_restart: Vec<String>,
}
