//! Triggers of a user's agentables: at a time, at a word or at an event, they get a message, or a task of them starts.

pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod due;
pub(crate) mod firings;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod new;

use chrono::{DateTime, Utc};
use houston_domain::trigger::effect::{TriggerPlan, TriggerTask, check_template};
use houston_domain::trigger::{InvalidWhen, MAX_INSTRUCTIONS_BYTES, MAX_NAME_CHARS, When};
use houston_protocol::time::Time;
use houston_protocol::trigger::{TriggerResponse, TriggerThen};
use houston_store::trigger::Trigger;
use serde_json::{Map, Value};

use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;

fn response(trigger: Trigger) -> TriggerResponse {
    let (agentable, kind) = trigger.agentable;
    let (refused, refusal) = trigger.refused;
    let (agentable_id, instructions) = (agentable.public_id(&kind), trigger.instructions);
    let then = match trigger.task {
        None => TriggerThen::Tell { agentable_id, instructions },
        Some(TriggerTask { plan: Some(plan), .. }) => {
            let TriggerPlan { document, input, .. } = *plan;
            TriggerThen::Plan { agentable_id, document: object(document), input: object(input) }
        }
        Some(TriggerTask { kind, title, .. }) => {
            TriggerThen::Task { agentable_id, kind: Some(kind), title, instructions }
        }
    };
    TriggerResponse {
        id: trigger.id,
        user_id: trigger.user,
        name: trigger.name,
        when: trigger.when.into(),
        then,
        enabled: trigger.enabled,
        next_at: trigger.next_at.map(Time),
        last_at: trigger.last_at.map(Time),
        fired: trigger.fired,
        refused,
        refusal,
        created_at: Time(trigger.created_at),
        updated_at: Time(trigger.updated_at),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// When it is due first, if that is a time.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the part which is not allowed.
fn check_when(when: &When, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ApiError> {
    match when {
        When::Keyword { words, regex } => {
            for (nth, word) in words.iter().enumerate() {
                check_text(&format!("/when/words/{nth}"), word)?;
            }
            check_text("/when/regex", regex.as_deref().unwrap_or_default())?;
        }
        When::Event { kind, condition, .. } => {
            if let Some(kind) = kind {
                check_line("/when/kind", kind, MAX_NAME_CHARS)?;
            }
            check_text("/when/if", condition.as_deref().unwrap_or_default())?;
        }
        When::Cron { .. } => {}
    }
    when.first_after(now).map_err(|error| refused("/when", error))
}

fn refused(within: &str, error: InvalidWhen) -> ApiError {
    ApiError::field(&format!("{within}{}", error.pointer), error.reason)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    check_line("/name", name, MAX_NAME_CHARS)
}

fn check_instructions(pointer: &str, instructions: &str) -> Result<(), ApiError> {
    check_text(pointer, instructions)?;
    check_size(pointer, instructions.len(), MAX_INSTRUCTIONS_BYTES)?;
    if instructions.trim().is_empty() {
        return Err(ApiError::field(pointer, "must not be empty"));
    }
    check_template(pointer, instructions).map_err(|error| refused("", error))
}
