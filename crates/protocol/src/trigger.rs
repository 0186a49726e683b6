//! Triggers: messages to an agentable at a time, at a word or at an event.

use houston_domain::id::{TriggerId, UserId};
use houston_domain::trigger::{Misfire, When};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// What happens to times that were missed because no worker was alive: it fires `once`, however many there were, or it skips
/// them (`skip`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerMisfire {
    #[default]
    Once,
    Skip,
}

/// When a trigger fires.
///
/// ```json
/// {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin", "misfire": "once"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriggerWhen {
    /// At times. A time that the clocks skip comes right after the gap, one that comes twice fires once.
    Cron {
        /// Five fields: minute, hour, day of the month, month, day of the week.
        cron: String,
        /// An IANA name, such as `Europe/Berlin`.
        zone: String,
        #[serde(default)]
        misfire: TriggerMisfire,
    },
    /// When the user writes one of these words to any agentable.
    Keyword {
        /// Whole words or phrases, without regard to case, 50 at most.
        #[serde(default)]
        #[schema(max_items = 50)]
        words: Vec<String>,
        /// A regular expression, without regard to case, of up to 500 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        regex: Option<String>,
    },
    /// At events of the user's agentables.
    Event {
        /// 1 to 20 patterns of topics: `run.*`, `task.ended`, `tool.**`.
        #[schema(min_items = 1, max_items = 20)]
        topics: Vec<String>,
    },
}

impl From<TriggerWhen> for When {
    fn from(when: TriggerWhen) -> Self {
        match when {
            TriggerWhen::Cron { cron, zone, misfire } => {
                let misfire = match misfire {
                    TriggerMisfire::Once => Misfire::Once,
                    TriggerMisfire::Skip => Misfire::Skip,
                };
                Self::Cron { cron, zone, misfire }
            }
            TriggerWhen::Keyword { words, regex } => Self::Keyword { words, regex },
            TriggerWhen::Event { topics } => Self::Event { topics },
        }
    }
}

impl From<When> for TriggerWhen {
    fn from(when: When) -> Self {
        match when {
            When::Cron { cron, zone, misfire } => {
                let misfire = match misfire {
                    Misfire::Once => TriggerMisfire::Once,
                    Misfire::Skip => TriggerMisfire::Skip,
                };
                Self::Cron { cron, zone, misfire }
            }
            When::Keyword { words, regex } => Self::Keyword { words, regex },
            When::Event { topics } => Self::Event { topics },
        }
    }
}

/// What a trigger does.
///
/// ```json
/// {"type": "tell", "agentable_id": "goal_0190…", "instructions": "Look for new offers."}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriggerThen {
    /// Posts a system message to an agentable of the user: an open run reads it; otherwise it opens a run.
    Tell {
        #[schema(value_type = schema::AgentableId)]
        agentable_id: String,
        /// What the agent reads first, up to 4,000 bytes.
        instructions: String,
    },
}

/// A trigger to be created.
///
/// ```json
/// {"name": "Every morning", "when": {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin"},
///  "then": {"type": "tell", "agentable_id": "goal_0190…", "instructions": "Look for new offers."}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTrigger {
    /// Up to 100 characters.
    #[schema(max_length = 100)]
    pub name: String,
    pub when: TriggerWhen,
    pub then: TriggerThen,
}

/// Changes to a trigger. What is left out stays.
///
/// ```json
/// {"enabled": false}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTrigger {
    #[schema(max_length = 100)]
    pub name: Option<String>,
    /// What the agent reads first.
    pub instructions: Option<String>,
    pub when: Option<TriggerWhen>,
    pub enabled: Option<bool>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerResponse {
    #[schema(value_type = schema::TriggerId)]
    pub id: TriggerId,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    pub name: String,
    pub when: TriggerWhen,
    pub then: TriggerThen,
    pub enabled: bool,
    /// When it is due, if that is a time.
    #[schema(value_type = Option<schema::Time>)]
    pub next_at: Option<Time>,
    #[schema(value_type = Option<schema::Time>)]
    pub last_at: Option<Time>,
    /// How often it has fired.
    pub fired: i64,
    /// How often it was due and did not fire.
    pub refused: i64,
    /// Why the last time: `limit` (it has fired too often this hour), `loop`, `missed`, or `archived`.
    pub refusal: Option<String>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
    #[schema(value_type = schema::Time)]
    pub updated_at: Time,
}

/// All triggers of a user, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerList {
    pub data: Vec<TriggerResponse>,
}
