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
use houston_domain::id::{AgentableId, UserId};
use houston_domain::trigger::effect::{TriggerPlan, TriggerTask, check_template};
use houston_domain::trigger::{InvalidWhen, MAX_INSTRUCTIONS_BYTES, MAX_NAME_CHARS, When};
use houston_protocol::time::Time;
use houston_protocol::trigger::{TriggerResponse, TriggerThen};
use houston_store::trigger::Trigger;
use serde_json::{Map, Value};

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;
use crate::state::App;

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

/// Checks that the user has an agentable of this kind.
///
/// # Errors
/// [`ApiError::NotFound`], in the same words for another user's and for none; the store's errors.
async fn check_owner(
    app: &App,
    caller: Caller,
    user: UserId,
    (agentable, kind): (AgentableId, &str),
) -> Result<(), ApiError> {
    let stored = app.store(caller).kind_for_trigger(user, agentable).await?;
    if stored == kind { Ok(()) } else { Err(ApiError::NotFound { what: "agentable" }) }
}

/// Checks that the agentable whose events alone are heard, if there is one, is the user's.
///
/// # Errors
/// [`ApiError::InvalidRequest`], in the same words for another user's and for none; the store's errors.
async fn check_heard(app: &App, caller: Caller, user: UserId, when: &When) -> Result<(), ApiError> {
    let When::Event { agentable_id: Some(id), .. } = when else { return Ok(()) };
    let unknown = || ApiError::field("/when/agentable_id", "is no agentable of this user");
    let path = AgentablePath::of_public_id(&app.state.agent_types, id).ok_or_else(unknown)?;
    match check_owner(app, caller, user, (path.id, &path.kind)).await {
        Err(ApiError::NotFound { .. }) => Err(unknown()),
        checked => checked,
    }
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
