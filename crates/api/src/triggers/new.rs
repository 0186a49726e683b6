//! A trigger from a request: what is allowed in it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::id::{AgentableId, TriggerId, UserId, parse_prefixed};
use houston_domain::mode::Mode;
use houston_domain::plan::{Document, MAX_BYTES, Offer};
use houston_domain::trigger::When;
use houston_domain::trigger::effect::{TriggerPlan, TriggerTask, check_template, check_templates};
use houston_protocol::trigger::{CreateTrigger, TriggerThen, TriggerWhen};
use houston_store::trigger::Trigger;
use serde_json::Value;

use super::{check_instructions, check_name, check_when};
use crate::body::{check_line, check_size};
use crate::error::ApiError;
use crate::messages::post::check_storable_value;
use crate::plans::create::title;
use crate::plans::invalid;

/// The plans that an agentable may have.
#[derive(Debug, Clone)]
pub struct PlanOffer {
    /// Their kind.
    pub kind: String,
    /// The first stored status of such a plan.
    pub status: Option<String>,
    /// The tools that their steps may call.
    pub tools: Vec<String>,
    /// Maximum number of steps.
    pub steps: usize,
    /// Seconds after which one fails.
    pub lasts_s: u32,
}

type AgentTypes = BTreeMap<String, AgentType>;

/// A trigger that is due for the first time after `now`. `plans`: those of the agentable, if the trigger starts one.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the part which is not allowed. Whether the user has the agentable is not checked.
pub fn new_trigger(
    types: &AgentTypes,
    (id, user): (TriggerId, UserId),
    request: CreateTrigger,
    (now, plans): (DateTime<Utc>, Option<&PlanOffer>),
) -> Result<Trigger, ApiError> {
    let CreateTrigger { name, when, then } = request;
    check_name(&name)?;
    let (agentable_id, instructions, task) = match then {
        TriggerThen::Tell { agentable_id, instructions } => (agentable_id, instructions, None),
        TriggerThen::Task { agentable_id, kind, title, instructions } => {
            (agentable_id, instructions, Some((kind, title)))
        }
        TriggerThen::Plan { agentable_id, document, input } => {
            let plan = plan_of(plans, Value::Object(document), Value::Object(input))?;
            return started(types, (id, user), (name, when), (&agentable_id, plan), now);
        }
    };
    check_instructions("/then/instructions", &instructions)?;
    let when: When = when.into();
    let next_at = check_when(&when, now)?;
    let (found, agentable) = agentable(types, &agentable_id)?;
    let task = match task {
        None => hears_triggers(found).map(|()| None)?,
        Some((kind, title)) => Some(task_of(types, found, kind.as_deref(), title)?),
    };
    let agentable = (agentable, found.kind.clone());
    Ok(trigger((id, user), (name, instructions), agentable, task, (when, next_at, now)))
}

/// A trigger that starts a plan.
fn started(
    types: &AgentTypes,
    ids: (TriggerId, UserId),
    (name, when): (String, TriggerWhen),
    (agentable_id, plan): (&str, TriggerTask),
    now: DateTime<Utc>,
) -> Result<Trigger, ApiError> {
    let when: When = when.into();
    let next_at = check_when(&when, now)?;
    let (found, id) = agentable(types, agentable_id)?;
    let agentable = (id, found.kind.clone());
    Ok(trigger(ids, (name, String::new()), agentable, Some(plan), (when, next_at, now)))
}

fn trigger(
    (id, user): (TriggerId, UserId),
    (name, instructions): (String, String),
    agentable: (AgentableId, String),
    task: Option<TriggerTask>,
    (when, next_at, now): (When, Option<DateTime<Utc>>, DateTime<Utc>),
) -> Trigger {
    Trigger {
        id,
        user,
        agentable,
        name,
        instructions,
        task,
        when,
        next_at,
        enabled: true,
        fired: 0,
        refused: (0, None),
        last_at: None,
        created_at: now,
        updated_at: now,
    }
}

/// The plan, if its document and its input are allowed.
fn plan_of(plans: Option<&PlanOffer>, document: Value, input: Value) -> Result<TriggerTask, ApiError> {
    let offer = plans.ok_or_else(|| {
        ApiError::field("/then/type", "such an agentable has no plans here: its kind must have `creates = [\"plan\"]`, and a running server is asked")
    })?;
    check_storable_value("/then/document", &document)?;
    check_storable_value("/then/input", &input)?;
    check_size("/then/input", input.to_string().len(), MAX_BYTES)?;
    check_templates("/then/input", &input).map_err(|error| ApiError::field(&error.pointer, error.reason))?;
    let PlanOffer { kind, status, tools, steps, lasts_s } = offer.clone();
    let names: Vec<&str> = tools.iter().map(String::as_str).collect();
    let checked = Document::parse(&document.to_string(), Offer { tools: &names, steps })
        .map_err(|problems| invalid("/then/document", problems))?;
    let title = title(&checked.goal);
    Ok(TriggerTask {
        kind,
        status,
        title,
        plan: Some(Box::new(TriggerPlan { document, input, tools, lasts_s })),
    })
}

/// The agentable that gets the message or the task, and its kind.
fn agentable<'a>(types: &'a AgentTypes, id: &str) -> Result<(&'a AgentType, AgentableId), ApiError> {
    let kind = id.rsplit_once('_').map_or("", |(kind, _)| kind);
    let found = types.get(kind);
    let found = found.and_then(|found| Some((found, parse_prefixed(kind, id).ok()?.into())));
    found.ok_or_else(|| {
        ApiError::field("/then/agentable_id", "must be the id of an agentable, as in `goal_…`")
    })
}

/// An agentable that gets a message must have the mode `trigger`.
fn hears_triggers(found: &AgentType) -> Result<(), ApiError> {
    if found.modes.contains(&Mode::Trigger) {
        return Ok(());
    }
    let reason = format!("{} has no triggers; only kinds with `modes = [\"trigger\"]` have them", found.kind);
    Err(ApiError::field("/then/agentable_id", reason))
}

/// A task of this kind, or of the first that the agentable may create.
fn task_of(
    types: &AgentTypes,
    parent: &AgentType,
    kind: Option<&str>,
    title: String,
) -> Result<TriggerTask, ApiError> {
    check_line("/then/title", &title, MAX_TITLE_CHARS)?;
    check_template("/then/title", &title).map_err(|error| ApiError::field(&error.pointer, error.reason))?;
    let found = match kind {
        Some(wanted) => parent.creates.iter().find(|kind| *kind == wanted),
        None => parent.creates.first(),
    };
    let Some(found) = found.and_then(|kind| types.get(kind)) else {
        let may = match parent.creates.join("`, `") {
            kinds if kinds.is_empty() => "it may create none".to_owned(),
            kinds => format!("it may create `{kinds}`"),
        };
        let reason = format!("{} cannot create such tasks; {may}", parent.kind);
        return Err(ApiError::field("/then/kind", reason));
    };
    let (kind, status) = (found.kind.clone(), found.initial_status().map(str::to_owned));
    Ok(TriggerTask { kind, status, title, plan: None })
}
