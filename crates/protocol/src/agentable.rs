//! Agentables: goals, tasks, user agents, and all other kinds in `jobs/agents`.

use houston_domain::id::{AgentId, RunId, TeamId, UserId};
use houston_domain::task::TaskResult;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::field::nullable;
use crate::message::AcceptedMessageResponse;
use crate::time::Time;
use crate::user::CreateUser;

/// An agentable.
///
/// ```json
/// {"id": "goal_0190…", "user_id": "user_0190…", "title": "A trip to Rome", "description": "", "status": "waiting",
///  "run_id": "run_0190…", "agent_id": null, "team_id": null, "tools": null, "cost": "0.0123", "unpriced_calls": 0,
///  "last_seq": 9, "read_seq": 4, "unread": 1, "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentableResponse {
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub id: String,
    pub user_id: UserId,
    /// For a task: the agentable that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<houston_domain::id::AgentableId>))]
    pub parent_id: Option<String>,
    pub title: String,
    pub description: String,
    /// One of the statuses of its kind: it follows from its run, unless it was set.
    pub status: Option<String>,
    /// Its open or latest run.
    pub run_id: Option<RunId>,
    /// The agent that answers; null without a `team_id`: the default agent of the kind.
    pub agent_id: Option<AgentId>,
    /// The team that answers.
    pub team_id: Option<TeamId>,
    /// The tools it may call, out of those of its kind; null: all of them.
    pub tools: Option<Vec<String>>,
    /// For a task: how it ended; absent while its run is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
    /// Known cost of its model calls, in US dollars; null if no cost is known, which is not 0.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    #[serde(default)]
    pub unpriced_calls: i32,
    /// The position of its newest event; absent in the response to its creation. A stream from here on (`?after=`) has what
    /// is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<i64>,
    /// The user has read the messages up to this position, on whichever device; absent if its kind has no messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_seq: Option<i64>,
    /// How many texts of agents and errors are unread, among the newest 100 messages; absent if its kind has no messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<i64>,
    pub created_at: Time,
    /// Only in the response to its creation: the first message, if it was created with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<AcceptedMessageResponse>>,
}

/// Creates an agentable; with a user and a first message, if they are given.
///
/// ```json
/// {"user_id": "user_0190…", "title": "A trip to Rome", "description": "Four days in May"}
/// {"user": {"external_id": "ada", "name": "Ada"}, "title": "A trip to Rome", "message": {"content": "Find a flight."}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateAgentable {
    /// The user it is for; required without `user`.
    pub user_id: Option<UserId>,
    /// The user it is for, who is created with it. If a user has this `external_id`, the agentable is for that user, whose
    /// other fields do not change.
    pub user: Option<CreateUser>,
    /// Its first message, which opens its first run. The response has the message, with the URL of its stream.
    pub message: Option<CreateFirstMessage>,
    /// 1 to 200 characters. May be absent or empty if the kind generates titles.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub title: Option<String>,
    /// At most 32 KiB.
    #[serde(default)]
    pub description: String,
    /// The agent that answers.
    pub agent_id: Option<AgentId>,
    /// The team that answers, instead of an agent.
    pub team_id: Option<TeamId>,
    /// The tools it may call, out of those of its kind; all of them if absent.
    pub tools: Option<Vec<String>>,
}

/// The first message to a new agentable: `{"content": "Find me a flight.", "metadata": {"source": "ios"}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateFirstMessage {
    /// 1 byte to 256 KiB of UTF-8, without U+0000.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 262144, example = "Plan a trip to Rome")
    )]
    pub content: String,
    /// Returned with the message and its events; at most 16 KiB as JSON.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::MessageMetadata))]
    pub metadata: Map<String, Value>,
}

/// Changes an agentable: given fields are set, others stay; null restores the default of the kind. `{"title":
/// "A trip to Rome", "agent_id": null}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateAgentable {
    /// 1 to 200 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: Option<String>,
    /// At most 32 KiB.
    pub description: Option<String>,
    /// A status of its kind that does not follow from runs, as `archived`; the first status of the kind withdraws what was
    /// set.
    #[cfg_attr(feature = "openapi", schema(example = "archived"))]
    pub status: Option<String>,
    /// The agent that answers; null: the default agent of the kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Option<AgentId>>,
    /// The team that answers; null: the default agent of the kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub team_id: Option<Option<TeamId>>,
    /// The tools it may call; null: all those of its kind.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub tools: Option<Option<Vec<String>>>,
}
