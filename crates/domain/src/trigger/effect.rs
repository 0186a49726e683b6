//! What a trigger does: it posts to an agentable, or starts a task or a plan of it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cause, MAX_INSTRUCTIONS_BYTES, check_expression};
use crate::agentable::MAX_TITLE_CHARS;
use crate::plan::{ExpressionError, render};
use crate::setting::{WrongSetting, require};

/// How many of its last firings a trigger keeps.
pub const MAX_FIRINGS: i64 = 20;

/// A task or a plan that a trigger starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerTask {
    /// Its kind.
    pub kind: String,
    /// The first stored status of such a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// A template of its title, one line.
    pub title: String,
    /// Set if it is a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<TriggerPlan>>,
}

/// A plan that a trigger starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerPlan {
    /// The document, checked.
    pub document: Value,
    /// What its expressions read as `input`: texts in it may be templates.
    pub input: Value,
    /// The tools that its steps may call.
    pub tools: Vec<String>,
    /// Seconds after which it fails.
    pub lasts_s: u32,
}

/// What became of a trigger that was due.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    /// When.
    pub at: DateTime<Utc>,
    /// The topic of the event; `None`: a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The public id of the event's agentable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agentable: Option<String>,
    /// The public id of the run that read the message, or of the task that was started; `None`: it did not fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// Why it did not fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Firing {
    /// About this cause.
    pub fn about(cause: &Cause, at: DateTime<Utc>) -> Self {
        Self { at, topic: cause.topic.clone(), agentable: cause.agentable.clone(), made: None, refusal: None }
    }
}

/// Whether a text is a template.
fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Checks a text that may be a template.
///
/// # Errors
/// [`WrongSetting`] with `pointer`: what is wrong, and what is allowed.
pub fn check_template(pointer: &str, text: &str) -> Result<(), WrongSetting> {
    let reason = format_args!("must have at most {MAX_INSTRUCTIONS_BYTES} bytes");
    require(text.len() <= MAX_INSTRUCTIONS_BYTES, pointer, reason)?;
    if is_template(text) {
        check_expression(text, true).map_err(|reason| WrongSetting::new(pointer, reason))?;
    }
    Ok(())
}

/// The text with what happened in it. What is inserted is data: the caller that gives the text to a model escapes all of it.
///
/// # Errors
/// The template names what the event does not have, writes too much or takes too long.
pub fn filled(text: &str, cause: &Cause) -> Result<String, ExpressionError> {
    if is_template(text) { render(text, &cause.context(), false) } else { Ok(text.to_owned()) }
}

/// Checks the texts in a value, which may be templates.
///
/// # Errors
/// As [`check_template`]; `pointer` is where the value is.
pub fn check_templates(pointer: &str, value: &Value) -> Result<(), WrongSetting> {
    match value {
        Value::String(text) => check_template(pointer, text),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(nth, item)| check_templates(&format!("{pointer}/{nth}"), item)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, field)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            check_templates(&format!("{pointer}/{name}"), field)
        }),
        _ => Ok(()),
    }
}

/// The value with what happened in its texts.
pub fn filled_value(value: &Value, cause: &Cause) -> Result<Value, ExpressionError> {
    Ok(match value {
        Value::String(text) => filled(text, cause)?.into(),
        Value::Array(items) => {
            items.iter().map(|item| filled_value(item, cause)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Object(fields) => {
            let filled = fields.iter().map(|(name, field)| Ok((name.clone(), filled_value(field, cause)?)));
            Value::Object(filled.collect::<Result<_, ExpressionError>>()?)
        }
        other => other.clone(),
    })
}

/// The title with what happened in it: one line, shortened.
pub fn filled_title(title: &str, cause: &Cause) -> Result<String, ExpressionError> {
    let title = filled(title, cause)?;
    let words = title.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    Ok(line.chars().take(MAX_TITLE_CHARS).collect())
}
