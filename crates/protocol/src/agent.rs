//! Agents: named configurations that belong to a tenant.

use houston_domain::agent::limits::LimitChanges;
use houston_domain::answering::{Output, Sampling};
use houston_domain::id::AgentId;
use houston_domain::model_policy::ModelPolicy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::field::nullable;
use crate::time::Time;

/// An agent.
///
/// ```json
/// {"id": "agent_0190…", "name": "Travel", "kind": "goal", "description": "Plans trips", "role": "You plan trips.",
///  "guidelines": "", "tools": ["send_message"], "use_case": "agent", "provider": "default", "model": "default",
///  "limits": {}, "enabled": true, "is_default": false, "changed": true, "version": 1,
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentResponse {
    pub id: AgentId,
    /// Unique in the tenant.
    pub name: String,
    /// The kind of agentable it answers for, as in `goal`.
    pub kind: String,
    /// What it is good for; people and a team's router read it.
    pub description: String,
    /// Who it is, and what for; part of the system prompt.
    pub role: String,
    /// How it works; part of the system prompt.
    pub guidelines: String,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// The use case whose model `default` means.
    pub use_case: String,
    /// The name of a provider, or `default`.
    pub provider: String,
    /// The name of a model, or `default`.
    pub model: String,
    /// The limits of its kind that it overrides.
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::agent::limits::LimitChanges))]
    pub limits: Map<String, Value>,
    /// How its model chooses its words, where it differs from its kind.
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
    /// The form of its answers; absent if it is that of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// How its model is called, where it differs from its kind.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_unset")]
    pub model_policy: ModelPolicy,
    /// Whether it may answer runs.
    pub enabled: bool,
    /// Whether it is the default agent of its kind.
    pub is_default: bool,
    /// Whether it differs from the file of its kind because it was changed; always true for an agent that is
    /// not a default agent.
    pub changed: bool,
    /// Increases with each change.
    pub version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Creates or changes an agent: given fields are set. Other fields stay, or for a new agent are those of the file
/// of its kind.
///
/// ```json
/// {"name": "Travel", "kind": "goal", "role": "You plan trips.", "limits": {"max_iterations": 10}}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AgentSettingsRequest {
    /// 1 to 100 characters on one line, unique in the tenant. Required for a new agent.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
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
    /// The use case whose model `default` means.
    pub use_case: Option<String>,
    /// The name of a provider, or `default`.
    pub provider: Option<String>,
    /// The name of a model, or `default`.
    pub model: Option<String>,
    /// Accepts a model that is not in the list of its provider.
    #[serde(default)]
    pub allow_unlisted_model: bool,
    /// How its model chooses its words, where it differs from its kind; a setting that the model does not accept is refused.
    pub sampling: Option<Sampling>,
    /// The form of its answers: each of its runs ends with a value that fits. `null` leaves it to its kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub output: Option<Option<Output>>,
    /// How its model is called, where it differs from its kind.
    pub model_policy: Option<ModelPolicy>,
    /// Limits of its kind that it overrides; never above those.
    pub limits: Option<LimitChanges>,
    /// Whether it may answer runs.
    pub enabled: Option<bool>,
    /// For a change: fails unless the agent has this version.
    pub version: Option<i64>,
}

/// Kinds, grouped by what happened to their default agents.
///
/// ```json
/// {"created": [], "updated": ["goal"], "unchanged": ["task"], "kept": ["user_agent"], "needs_restart": []}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
