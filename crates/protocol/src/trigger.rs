//! Triggers: at a time, at a word or at an event, an agentable gets a message, or a task or a plan of it is started.

use houston_domain::id::{TriggerId, UserId};
use houston_domain::trigger::effect::Firing;
pub use houston_domain::trigger::{Misfire as TriggerMisfire, UpdateTrigger, When as TriggerWhen};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

/// What a trigger does. Its texts may be templates, as in `It is {{ event.data.status }}`: `event` is as in conditions, and what
/// is inserted is data.
///
/// ```json
/// {"type": "tell", "agentable_id": "goal_0190…", "instructions": "Look for new offers."}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriggerThen {
    /// Posts a system message to an agentable of the user: an open run reads it; otherwise it opens a run.
    Tell {
        #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
        agentable_id: String,
        /// What the agent reads first, up to 4,000 bytes.
        instructions: String,
    },
    /// Starts a task of an agentable of the user. Its end is reported to that agentable.
    Task {
        #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
        agentable_id: String,
        /// One of the kinds of tasks that the agentable may create; the first of them when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// One line that says what the task is about, up to 200 characters.
        #[cfg_attr(feature = "openapi", schema(max_length = 200))]
        title: String,
        /// What the task reads first, up to 4,000 bytes.
        instructions: String,
    },
    /// Starts a plan of an agentable of the user, without any model. Its end is reported to that agentable.
    Plan {
        #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
        agentable_id: String,
        /// The document, as in `POST /v1/goals/{id}/plans`.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        document: Map<String, Value>,
        /// What its expressions read as `input`. Texts in it may be templates.
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        input: Map<String, Value>,
    },
}

/// A trigger to be created.
///
/// ```json
/// {"name": "Every morning", "when": {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin"},
///  "then": {"type": "tell", "agentable_id": "goal_0190…", "instructions": "Look for new offers."}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateTrigger {
    /// Up to 100 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub name: String,
    pub when: TriggerWhen,
    pub then: TriggerThen,
}

/// A trigger.
///
/// ```json
/// {"id": "trigger_0190…", "user_id": "user_0190…", "name": "Every morning",
///  "when": {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin", "misfire": "once"},
///  "then": {"type": "tell", "agentable_id": "goal_0190…", "instructions": "Look for new offers."},
///  "enabled": true, "next_at": "2026-11-27T06:30:00.000Z", "last_at": null, "fired": 0, "refused": 0, "refusal": null,
///  "created_at": "2026-11-26T09:00:00.000Z", "updated_at": "2026-11-26T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TriggerResponse {
    pub id: TriggerId,
    pub user_id: UserId,
    pub name: String,
    pub when: TriggerWhen,
    pub then: TriggerThen,
    pub enabled: bool,
    /// When it is due, if that is a time.
    pub next_at: Option<Time>,
    pub last_at: Option<Time>,
    /// How often it has fired.
    pub fired: i64,
    /// How often it was due and did not fire.
    pub refused: i64,
    /// Why the last time: `limit` (it has fired too often this hour), `loop`, `missed`, `archived`, `tasks` (the agentable has
    /// enough open tasks), `plans` (enough of its plans have not ended), or `condition: …` and `template: …` with the error.
    pub refusal: Option<String>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// All triggers of a user, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TriggerList {
    pub data: Vec<TriggerResponse>,
}

/// What became of a trigger that was due.
///
/// ```json
/// {"at": "2026-11-27T06:30:00.000Z", "topic": "task.ended", "agentable_id": "goal_0190…", "made": "run_0190…", "refusal": null}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TriggerFiring {
    pub at: Time,
    /// The topic of the event; null: a time.
    pub topic: Option<String>,
    /// Whose event it is.
    pub agentable_id: Option<String>,
    /// The run that read the message, or the task that was started; null: it did not fire.
    pub made: Option<String>,
    /// Why it did not fire, as `refusal` of the trigger.
    pub refusal: Option<String>,
}

impl From<Firing> for TriggerFiring {
    fn from(firing: Firing) -> Self {
        let Firing { at, topic, agentable, made, refusal } = firing;
        Self { at: Time(at), topic, agentable_id: agentable, made, refusal }
    }
}

/// The last 20 firings of a trigger, the latest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TriggerFiringList {
    pub data: Vec<TriggerFiring>,
}
