//! Which events a trigger hears: topics, whose they are, and a condition.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cause, InvalidWhen};
use crate::event::topic::{EventFilter, EventOwner, InvalidPattern, MAX_PATTERNS};
use crate::id::parse_prefixed;
use crate::plan::{ExpressionError, condition, is_plain, names, render};

/// The names that conditions and templates of triggers have.
const NAMES: &[&str] = &["event"];

/// Events, chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRule {
    filter: EventFilter,
    condition: Option<String>,
}

impl EventRule {
    pub(super) fn new(
        topics: &[String],
        (kind, agentable): (Option<&str>, Option<&str>),
        condition: Option<&str>,
    ) -> Result<Self, InvalidWhen> {
        if topics.is_empty() || topics.len() > MAX_PATTERNS {
            return Err(InvalidWhen::at("/topics", format!("must have 1 to {MAX_PATTERNS} patterns")));
        }
        let parse = |(nth, topic): (usize, &String)| {
            topic.parse().map_err(|error: InvalidPattern| {
                InvalidWhen::at(&format!("/topics/{nth}"), error.to_string())
            })
        };
        let topics = topics.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        let agentable = match agentable {
            None => None,
            Some(given) => {
                let kind = given.rsplit_once('_').map_or("", |(kind, _)| kind);
                let id = parse_prefixed(kind, given).map_err(|_| {
                    InvalidWhen::at("/agentable_id", "must be the id of an agentable, as in `goal_…`")
                })?;
                Some(id.into())
            }
        };
        if let Some(condition) = condition {
            check(condition, false).map_err(|reason| InvalidWhen::at("/if", reason))?;
        }
        let filter = EventFilter { topics, user: None, kind: kind.map(str::to_owned), agentable };
        Ok(Self { filter, condition: condition.map(str::to_owned) })
    }

    /// Whether an event is heard, if the condition holds.
    #[must_use]
    pub fn chooses(&self, topic: &str, owner: &EventOwner) -> bool {
        self.filter.matches(topic, owner)
    }

    /// Whether there is a condition.
    #[must_use]
    pub fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// Whether the condition holds; without one it does.
    ///
    /// # Errors
    /// It names what the event does not have, or takes too long.
    pub fn holds(&self, cause: &Cause) -> Result<bool, ExpressionError> {
        self.condition.as_ref().map_or(Ok(true), |text| condition(text, &cause.context()))
    }
}

/// Checks an expression, or a template, of a trigger.
///
/// # Errors
/// What is wrong, and what is allowed.
pub(super) fn check(source: &str, is_template: bool) -> Result<(), String> {
    let used: BTreeSet<String> = names(source, is_template).map_err(|error| error.to_string())?;
    if let Some(name) = used.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!(
            "there is no `{name}`; there is `event`, with `at`, `topic`, `agentable_id`, `kind`, `content` and `data`, as in \
             `event.data.status == \"failed\"`"
        ));
    }
    // Names of filters, tests and functions are looked up when they are used. What is not plain is tried before it is stored.
    if !is_plain(source, is_template) {
        return Ok(());
    }
    let sample = context(&Cause::default());
    let tried =
        if is_template { render(source, &sample, false).err() } else { condition(source, &sample).err() };
    match tried.map(|error| error.to_string()).filter(|error| error.starts_with("unknown ")) {
        None => Ok(()),
        Some(unknown) => Err(unknown),
    }
}

/// What is in `event` of conditions and templates.
pub(super) fn context(cause: &Cause) -> Value {
    let Cause { at, topic, agentable, kind, content, data } = cause;
    serde_json::json!({"event": {
        "at": at, "topic": topic, "agentable_id": agentable, "kind": kind, "content": content,
        "data": data.clone().unwrap_or_default(),
    }})
}
