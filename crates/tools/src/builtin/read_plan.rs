//! `read_plan`: the plans of the agent, the steps of one, or all of one step.

use std::collections::BTreeMap;

use houston_domain::focus::Tier;
use houston_domain::id::AgentableId;
use houston_domain::plan::{
    Action, Document, Heading, MAX_RESULT, State, States, Status, Step, checklist, listed,
};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::plan::{PlanStep, StoredPlan, states};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plans;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, TaskKind, Tool};
use crate::{input, untrusted};

pub(super) const NAME: &str = "read_plan";

/// Plans in a list.
const LISTED: i64 = 10;
/// Characters of each result in a list of steps, and of all of them together.
const RESULT_CHARS: usize = 400;
const RESULTS_CHARS: usize = 8_000;
/// Steps in a list.
const STEPS: usize = 200;

/// Reads plans of the agent.
#[derive(Debug)]
pub(super) struct ReadPlan(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    plan_id: Option<String>,
    path: Option<String>,
}

impl Default for ReadPlan {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Your newest plans; with `plan_id` the steps of one, how far each is and the beginning of its \
                          result; with `path` all that one step has returned."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "plan_id": {"type": "string"},
                    "path": {"type": "string", "description": "Path of a step, as in each[2].read."},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadPlan {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.makes_plans
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { plan_id, path } = input::read(NAME, input)?;
        let kind = match plans::kind(context) {
            Ok(kind) => kind.clone(),
            Err(refusal) => return Ok(Plan::Answer(refusal)),
        };
        if path.is_some() && plan_id.is_none() {
            return Err(InvalidInput(format!("{NAME}: `path` needs `plan_id`")));
        }
        let id = plan_id.map(|given| plans::id(NAME, &given, &kind)).transpose()?;
        Ok(Plan::record(Read { id, path, kind }))
    }
}

#[derive(Debug)]
struct Read {
    id: Option<AgentableId>,
    path: Option<String>,
    kind: TaskKind,
}

impl Record for Read {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let Some(id) = self.id else { return list(&tx.plans(LISTED).await?) };
            let Some(plan) = tx.plan(id).await? else {
                return Ok(not_found(&id.public_id(&self.kind.kind)));
            };
            let steps = tx.plan_steps(id).await?;
            let (document, states) = (plan.read()?, states(&steps));
            Ok(match &self.path {
                Some(path) => step(&plan, &document, &states, path),
                None => ToolResponse::success(all(&plan, &document, &steps, &states)),
            })
        })
    }
}

/// The response for a plan that the agent does not have.
pub(super) fn not_found(id: &str) -> ToolResponse {
    let text = format!("you have no plan {id}: {NAME} without `plan_id` lists those you have");
    ToolResponse::failure(ToolErrorCode::NotFound, text)
}

fn list(plans: &[StoredPlan]) -> houston_store::Result<ToolResponse> {
    let mut lines = Vec::new();
    for plan in plans {
        lines.push(format!("{}: {}", id(plan), plan.read()?.goal));
    }
    let none = || "You have made no plans.".to_owned();
    Ok(ToolResponse::success(if lines.is_empty() { none() } else { lines.join("\n") }))
}

/// Id, status and version of a plan.
fn id(plan: &StoredPlan) -> String {
    format!("{} [{}], version {}", plan.id.public_id(&plan.kind), plan.status(), plan.version)
}

/// The plan, then a line for each step.
fn all(plan: &StoredPlan, document: &Document, steps: &[PlanStep], states: &States) -> String {
    let questions = BTreeMap::new();
    let heading = Heading { plan_id: None, version: 1, status: plan.status(), questions: &questions };
    let counts = checklist(document, states, heading);
    let head = format!("{}, {} of {} done: {}", id(plan), counts.done, counts.of, document.goal);
    let turns = |path: &str| states.get(path).map_or(0, |state| state.turns.len());
    let mut left = RESULTS_CHARS;
    let mut lines = Vec::new();
    let all = listed(document, turns);
    for (path, step) in all.iter().take(STEPS) {
        let executor = steps.iter().find(|row| row.path == *path).and_then(|row| row.task.as_ref());
        let executor = executor.map(|(kind, id)| format!(" by {}", id.public_id(kind))).unwrap_or_default();
        lines.push(line(path, step, states.get(path), &executor, &mut left));
    }
    if all.len() > STEPS {
        lines.push(format!("There are {} more steps: read each by its path.", all.len() - STEPS));
    }
    if let Some(output) = plan.output.as_ref().filter(|output| !output.is_null()) {
        lines.push(format!("Output: {}", begin(output, MAX_RESULT)));
    }
    let of_strangers = may_be_of_strangers(document, states);
    format!("{head}\n{}", untrusted::stored(of_strangers, &plan.id.public_id(&plan.kind), lines.join("\n")))
}

fn line(path: &str, step: &Step, state: Option<&State>, executor: &str, left: &mut usize) -> String {
    let status = state.map_or(Status::Pending, |state| state.status);
    let mut line = format!("{path} [{status}] {}: {}{executor}", step.action.kind(), step.title);
    if !status.is_settled() && !step.after.is_empty() {
        let after: Vec<&str> = step.after.iter().map(String::as_str).collect();
        line += &format!(" (after {})", after.join(", "));
    }
    let Some(state) = state else { return line };
    if let Some(error) = &state.error {
        line += &format!("\n  {}: {}", error.code, error.message);
    }
    // What is in a container is in the lines of its steps.
    if !state.result.is_null() && !step.action.is_container() {
        let text = begin(&state.result, RESULT_CHARS.min(*left));
        *left -= text.chars().count().min(*left);
        line += &format!("\n  {text}");
    }
    line
}

/// All that one step has returned.
fn step(plan: &StoredPlan, document: &Document, states: &States, path: &str) -> ToolResponse {
    let turns = |path: &str| states.get(path).map_or(0, |state| state.turns.len());
    let all = listed(document, turns);
    let Some((path, found)) = all.iter().find(|(of, _)| of == path) else {
        let paths: Vec<&str> = all.iter().take(STEPS).map(|(path, _)| path.as_str()).collect();
        let text = format!("{} has no step {path}; there are: {}", id(plan), paths.join(", "));
        return ToolResponse::failure(ToolErrorCode::NotFound, text.chars().take(4_000).collect::<String>());
    };
    let state = states.get(path).cloned().unwrap_or_default();
    let head = format!("{path} [{}] {}: {}", state.status, found.action.kind(), found.title);
    let error = state.error.map(|error| format!("\n{}: {}", error.code, error.message)).unwrap_or_default();
    let text = if state.result.is_null() { "no result".to_owned() } else { begin(&state.result, usize::MAX) };
    let of_strangers = may_be_of_strangers(document, states);
    let text = untrusted::stored(of_strangers, &plan.id.public_id(&plan.kind), text);
    ToolResponse::success(format!("{head}{error}\n{text}"))
}

/// Whether results may contain what strangers wrote: one of them says so, or executors may have read it.
fn may_be_of_strangers(document: &Document, states: &States) -> bool {
    let steps = listed(document, |_| 1);
    steps.iter().any(|(_, step)| matches!(step.action, Action::Task { .. }))
        || states.values().any(|state| untrusted::is_marked(&begin(&state.result, usize::MAX)))
}

/// The beginning of a value, as text or JSON.
fn begin(value: &Value, most: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}… [{} characters]", &text[..at], text.chars().count()),
        None => text,
    }
}
