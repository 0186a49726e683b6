//! Agentables: goals, tasks, user agents, and whatever else `jobs/agents` has.

use houston_domain::id::{AgentId, RunId, TeamId, UserId};
use houston_domain::run::RunStatus;
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// An agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentableResponse {
    #[schema(value_type = schema::AgentableId)]
    pub id: String,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    /// The agentable a task works for; of a task alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::AgentableId>)]
    pub parent_id: Option<String>,
    pub title: String,
    pub description: String,
    /// One of the statuses of its kind, by its run and by what somebody decided.
    pub status: Option<String>,
    /// Its open run, or the latest one.
    #[schema(value_type = Option<schema::RunId>)]
    pub run_id: Option<RunId>,
    /// The agent that answers; without it and `team_id`, the default agent of the kind.
    #[schema(value_type = Option<schema::AgentId>)]
    pub agent_id: Option<AgentId>,
    /// The team that answers.
    #[schema(value_type = Option<schema::TeamId>)]
    pub team_id: Option<TeamId>,
    /// The tools it may call, of those of its kind; null: all of them.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// How it ended; of a task alone, and absent while its run is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResultResponse>,
    /// What its model calls cost in US dollars, as far as that is known; null when nothing is, which is not 0.
    #[serde(default)]
    #[schema(value_type = Option<schema::Decimal>)]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is not known.
    #[serde(default)]
    pub unpriced_calls: i32,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskResultResponse {
    /// How its run ended: `completed`, a stop rule (`max_iterations`, …), `failed`, `dead_lettered`, `cancelled`.
    #[schema(value_type = schema::RunStatus)]
    pub run_status: RunStatus,
    /// What cut it off: a stop rule, an error code in lower case, or who cancelled it; null: its agent was done.
    pub reason: Option<String>,
    /// The error for a person, if there was one.
    pub message: Option<String>,
    /// The last text its agent wrote; of a task that was cut off, what it had.
    pub text: Option<String>,
    #[schema(value_type = schema::Time)]
    pub ended_at: Time,
}

/// Creates an agentable: `{"user_id": "user_0190…", "title": "A trip to Rome"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAgentable {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    /// 1 to 200 characters. May be left out or empty in a kind that finds titles by itself.
    #[serde(default)]
    pub title: Option<String>,
    /// 32 KiB at most.
    #[serde(default)]
    pub description: String,
    /// The agent that answers.
    #[schema(value_type = Option<schema::AgentId>)]
    pub agent_id: Option<AgentId>,
    /// The team that answers, instead.
    #[schema(value_type = Option<schema::TeamId>)]
    pub team_id: Option<TeamId>,
    /// The tools it may call, of those of its kind; all of them, if not given.
    pub tools: Option<Vec<String>>,
}

/// Changes an agentable: what is given changes, the rest stays. Null stands for the default of the kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateAgentable {
    /// 1 to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// 32 KiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that answers; null: the default agent of the kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::AgentId>)]
    pub agent_id: Option<Option<AgentId>>,
    /// The team that answers; null: the default agent of the kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TeamId>)]
    pub team_id: Option<Option<TeamId>>,
    /// The tools it may call; null: all those of its kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub tools: Option<Option<Vec<String>>>,
}

/// Reads a field that may be absent (`None`), null (`Some(None)`) or given.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}
