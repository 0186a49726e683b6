//! Agents: named configurations that belong to a tenant.

use houston_domain::agent::limits::LimitChanges;
use houston_domain::id::AgentId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// An agent.
///
/// ```json
/// {"id": "agent_0190…", "name": "Travel", "kind": "goal", "description": "Plans trips", "role": "You plan trips.",
///  "guidelines": "", "tools": ["send_message"], "use_case": "agent", "provider": "default", "model": "default",
///  "limits": {}, "enabled": true, "is_default": false, "changed": true, "version": 1,
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
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
    /// The limits of its kind that it overrides.
    #[schema(value_type = schema::LimitChanges)]
    pub limits: Map<String, Value>,
    pub enabled: bool,
    pub is_default: bool,
    /// Whether it differs from the file of its kind because it was changed; always true for an agent that is
    /// not a default agent.
    pub changed: bool,
    /// Increases with each change.
    pub version: i64,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
    #[schema(value_type = schema::Time)]
    pub updated_at: Time,
}

/// Creates or changes an agent: given fields are set. Other fields stay, or for a new agent are those of the file
/// of its kind.
///
/// ```json
/// {"name": "Travel", "kind": "goal", "role": "You plan trips.", "limits": {"max_iterations": 10}}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSettingsRequest {
    /// 1 to 100 characters on one line, unique in the tenant. Required for a new agent.
    pub name: Option<String>,
    /// Required for a new agent; cannot be changed.
    pub kind: Option<String>,
    /// At most 2,000 bytes.
    pub description: Option<String>,
    /// 1 to 6,000 characters.
    pub role: Option<String>,
    /// At most 6,000 characters.
    pub guidelines: Option<String>,
    /// Tools of its kind.
    pub tools: Option<Vec<String>>,
    pub use_case: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Accepts a model that is not in the list of its provider.
    #[serde(default)]
    pub allow_unlisted_model: bool,
    #[schema(value_type = Option<schema::LimitChanges>)]
    pub limits: Option<LimitChanges>,
    pub enabled: Option<bool>,
    /// For a change: fails unless the agent has this version.
    pub version: Option<i64>,
}

/// Kinds, grouped by what happened to their default agents.
///
/// ```json
/// {"created": [], "updated": ["goal"], "unchanged": ["task"], "kept": ["user_agent"], "needs_restart": []}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResyncResponse {
    /// The default agent was created.
    pub created: Vec<String>,
    /// It was updated from the file of the kind.
    pub updated: Vec<String>,
    /// It equals the file of the kind already.
    pub unchanged: Vec<String>,
    /// It was changed over the API and stays unchanged; `reset` restores the file's settings.
    pub kept: Vec<String>,
    /// The file is new since this server started; it is read at the next start.
    pub needs_restart: Vec<String>,
}
