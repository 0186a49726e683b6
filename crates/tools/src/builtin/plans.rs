//! Plans: steps that are carried out side by side. An agent makes them, reads how far they are, and changes them.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::autonomy::Autonomy;
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::plan::{
    Action, Approval, Document, Heading, Limits, MAX_RESULT, Offer, Patched, Problem, State, States, Status,
    Step, Templates, approval, checklist, listed, model_schema, patch,
};
use houston_domain::tool_call::ToolDefinition;
use houston_store::plan::{NewPlan, PlanChange, PlanRefusal, PlanStep, StoredPlan, states};
use houston_store::record::RecordIds;
use serde_json::{Map, Value, json};

use super::create_task;
use super::prelude::*;
use crate::input::line as one_line;
use crate::record::{NewPlanInfo, NewTaskInfo};
use crate::tool::TaskKind;

built_in! {
    CreatePlan: "create_plan", Idempotent, needs Plans, expressions true;
    ReadPlan: "read_plan", Read, needs Plans;
    ChangePlan: "change_plan", Idempotent, needs Plans, expressions true;
}

/// The kind of the plans that the agent makes.
fn kind(context: &CallContext) -> Result<&TaskKind, Refusal> {
    context.tasks.iter().find(|kind| kind.is_plan).ok_or_else(|| {
        let reason = "you cannot make plans: do it step by step, with your own tools";
        failed(ToolErrorCode::PermissionDenied, reason)
    })
}

/// Parses the id of a plan.
fn parse_id(given: &str, kind: &TaskKind) -> Result<AgentableId, Refusal> {
    parse_prefixed(&kind.kind, given).map(AgentableId).map_err(|_| {
        let given: String = given.chars().take(80).collect();
        let form = format!("{}_<32 hex digits>", kind.kind);
        invalid(format!("`{given}` is no id of a plan; one is {form}"))
    })
}

/// Every problem on a line of its own, behind its JSON pointer.
fn problem_lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Why a person has to allow the plan first, if it is so.
fn asks(document: &Document, kind: &TaskKind) -> Option<String> {
    let acts = |tool: &str| kind.acting.iter().any(|acting| acting == tool);
    let effect = |tool: &str| if acts(tool) { EffectClass::Effect } else { EffectClass::Idempotent };
    Some(match approval(document, kind.autonomy, effect)? {
        Approval::Level => {
            format!("an agent with autonomy `{}` asks before each of its plans", kind.autonomy.as_str())
        }
        Approval::Effects(paths) => {
            let more = if paths.len() > NAMED { ", …" } else { "" };
            let named = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>();
            format!(
                "steps that act outside are repeated or go on side by side ({}{more}), which agents below autonomy `{}` \
                 do not do without asking",
                named.join(", "),
                Autonomy::High.as_str()
            )
        }
    })
}

/// Paths of steps that a question names.
const NAMED: usize = 5;

/// Carry out several steps that do not depend on what you say in between: side by side where they can be. A step reads
/// the result of another as {{ id.result }}, and then waits for it. You go on when the plan has ended, with all
/// results. Use it for three operations or more; call the tools yourself for fewer. Types of steps with their fields:
/// tool (tool, args), llm (prompt), task: an agent of its own (instructions, tools), input: asks your user (question),
/// condition (if, then, else), parallel (steps), loop (over, as, max, steps). For example {"id": "pick", "type": "llm",
/// "title": "Pick one", "prompt": "Pick one: {{ find.result }}"}
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreatePlan {
    goal: String,
    steps: Option<Vec<Value>>,
    template: Option<String>,
    #[serde(default)]
    input: Map<String, Value>,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    detached: bool,
}

impl BuiltIn for CreatePlan {
    /// The schema is that of documents, and names the templates of the installation.
    fn adapt(definition: &mut ToolDefinition, outside: &Outside) {
        definition.input_schema = schema(&outside.plan_templates).into();
    }

    fn plan(self, context: &CallContext, outside: &Outside) -> Result<Plan, Refusal> {
        let kind = kind(context)?;
        let limits = Limits::default();
        let document = self.document(&outside.plan_templates).map_err(invalid)?;
        let tools: Vec<&str> = kind.tools.iter().map(String::as_str).collect();
        let steps = if self.template.is_some() { limits.steps_of_request } else { limits.steps_of_model };
        let offer = Offer { tools: &tools, steps };
        let parsed = Document::parse(&document.to_string(), offer).map_err(|problems| {
            invalid(format!("mend the plan and call this again:\n{}", problem_lines(&problems)))
        })?;
        let lasts = if self.detached { limits.detached_s } else { limits.attached_s };
        let create = Create {
            title: parsed.goal.chars().take(120).collect(),
            asks: asks(&parsed, kind),
            parsed,
            document,
            input: Value::Object(self.input),
            kind: kind.clone(),
            attached: !self.detached,
            deadline: context.now + TimeDelta::seconds(lasts.into()),
        };
        Ok(Plan::record(create, context))
    }
}

/// The schema of a document, without its version; or of a template with its input.
fn schema(templates: &Templates) -> Value {
    let mut schema = model_schema();
    let required = if templates.is_empty() { json!(["goal", "steps"]) } else { json!(["goal"]) };
    schema["required"] = required;
    // An agent is sent this with each of its calls: the fields of inner steps are those of the outer ones.
    if let Some(fields) =
        schema.pointer_mut("/properties/steps/items/properties").and_then(Value::as_object_mut)
    {
        for list in ["then", "else", "steps"] {
            fields.insert(list.to_owned(), json!({"type": "array", "items": {"type": "object"}}));
        }
    }
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    fields.remove("v");
    fields.insert(
        "detached".to_owned(),
        json!({"type": "boolean", "description": "true: do not wait for the plan; a message says when it has ended."}),
    );
    if !templates.is_empty() {
        let names: Vec<&str> = templates.iter().map(|template| template.name.as_str()).collect();
        let lines = templates.iter().map(|template| {
            let fields = template.fields().collect::<Vec<_>>().join(", ");
            format!("{}: {} Input: {fields}.", template.name, template.description)
        });
        let text = format!("In place of `steps`. {}", lines.collect::<Vec<_>>().join(" "));
        fields.insert("template".to_owned(), json!({"enum": names, "description": text}));
        fields.insert("input".to_owned(), json!({"type": "object"}));
    }
    schema
}

impl CreatePlan {
    /// The document of the call.
    fn document(&self, templates: &Templates) -> Result<Value, String> {
        let Self { goal, steps, template, input, output, .. } = self;
        let mut document = match (steps, template) {
            (Some(steps), None) => json!({"v": 1, "goal": goal, "steps": steps}),
            (None, Some(name)) => {
                let template = templates.get(name).map_err(|why| format!("/template: {why}"))?;
                template
                    .check_input(&Value::Object(input.clone()))
                    .map_err(|problem| format!("/input{}: {}", problem.pointer, problem.message))?;
                let mut document = template.document.clone();
                document["goal"] = json!(goal);
                document
            }
            _ => return Err("give either `steps` or `template`".to_owned()),
        };
        if let Some(output) = output {
            document["output"] = output.clone();
        }
        Ok(document)
    }
}

/// A plan to be made.
#[derive(Debug)]
struct Create {
    parsed: Document,
    document: Value,
    input: Value,
    title: String,
    kind: TaskKind,
    attached: bool,
    deadline: DateTime<Utc>,
    asks: Option<String>,
}

impl Access for Create {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (counts, limits) = (tx.task_counts().await?, tx.limits.tasks);
        create_task::check_counts(&counts, &limits, tx.settings.knowledge_limits.max_notes)?;
        let RecordIds { row, run, message } = tx.ids;
        let id = AgentableId(row);
        let plan = NewPlan {
            id,
            run,
            message,
            kind: &self.kind.kind,
            status: self.kind.status.as_deref(),
            title: &self.title,
            tools: &self.kind.tools,
            document: &self.document,
            input: &self.input,
            attached: self.attached,
            deadline: self.deadline,
            traceparent: None,
        };
        tx.create_plan(&plan).await?;
        let follows = match self.attached {
            true => "You go on when it has ended.",
            false => "A message says when it has ended.",
        };
        Ok(format!("Made {}. {follows}", id.public_id(&self.kind.kind)))
    }

    fn asks(&self) -> Option<String> {
        self.asks.clone()
    }

    fn task(&self) -> Option<NewTaskInfo<'_>> {
        let plan = NewPlanInfo { document: &self.parsed, attached: self.attached };
        Some(NewTaskInfo { kind: &self.kind.kind, title: &self.title, plan: Some(plan) })
    }
}

impl NewPlanInfo<'_> {
    /// The list of steps of the new plan, as people see it. `plan_id`: its public id.
    pub fn checklist(&self, plan_id: &str) -> Value {
        let questions = BTreeMap::new();
        let heading =
            Heading { plan_id: Some(plan_id), version: 1, status: "running", questions: &questions };
        json!(checklist(self.document, &States::new(), heading))
    }
}

/// Plans in a list.
const LISTED: i64 = 10;
/// Characters of each result in a list of steps, and of all of them together.
const RESULT_CHARS: usize = 400;
const RESULTS_CHARS: usize = 8_000;
/// Steps in a list.
const STEPS: usize = 200;

/// Your newest plans; with `plan_id` the steps of one, how far each is and the beginning of its result; with `path` all
/// that one step has returned.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadPlan {
    plan_id: Option<String>,
    /// Path of a step, as in each[2].read.
    path: Option<String>,
}

impl ReadPlan {
    fn id(&self, kind: &TaskKind) -> Result<Option<AgentableId>> {
        self.plan_id.as_deref().map(|given| parse_id(given, kind)).transpose()
    }
}

impl Access for ReadPlan {
    fn check(&self, context: &CallContext) -> Result<()> {
        let kind = kind(context)?;
        if self.path.is_some() && self.plan_id.is_none() {
            return Err(invalid("`path` needs `plan_id`"));
        }
        self.id(kind).map(drop)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let kind = kind(context)?;
        let Some(id) = self.id(kind)? else { return list(&tx.plans(LISTED).await?) };
        let plan = tx.plan(id).await?.ok_or_else(|| not_found(&id.public_id(&kind.kind)))?;
        let steps = tx.plan_steps(id).await?;
        let (document, states) = (plan.read()?, states(&steps));
        match &self.path {
            Some(path) => step(&plan, &document, &states, path),
            None => Ok(all(&plan, &document, &steps, &states)),
        }
    }
}

/// The refusal for a plan that the agent does not have.
fn not_found(id: &str) -> Refusal {
    let text = format!("you have no plan {id}: {} without `plan_id` lists those you have", ReadPlan::NAME);
    failed(ToolErrorCode::NotFound, text)
}

fn list(plans: &[StoredPlan]) -> Result<String> {
    let mut lines = Vec::new();
    for plan in plans {
        lines.push(format!("{}: {}", id(plan), plan.read()?.goal));
    }
    Ok(if lines.is_empty() { "You have made no plans.".to_owned() } else { lines.join("\n") })
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
fn step(plan: &StoredPlan, document: &Document, states: &States, path: &str) -> Result<String> {
    let turns = |path: &str| states.get(path).map_or(0, |state| state.turns.len());
    let all = listed(document, turns);
    let Some((path, found)) = all.iter().find(|(of, _)| of == path) else {
        let paths: Vec<&str> = all.iter().take(STEPS).map(|(path, _)| path.as_str()).collect();
        let text = format!("{} has no step {path}; there are: {}", id(plan), paths.join(", "));
        return Err(failed(ToolErrorCode::NotFound, text.chars().take(4_000).collect::<String>()));
    };
    let state = states.get(path).cloned().unwrap_or_default();
    let head = format!("{path} [{}] {}: {}", state.status, found.action.kind(), found.title);
    let error = state.error.map(|error| format!("\n{}: {}", error.code, error.message)).unwrap_or_default();
    let text = if state.result.is_null() { "no result".to_owned() } else { begin(&state.result, usize::MAX) };
    let of_strangers = may_be_of_strangers(document, states);
    let text = untrusted::stored(of_strangers, &plan.id.public_id(&plan.kind), text);
    Ok(format!("{head}{error}\n{text}"))
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

/// Length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// Change a plan that has not ended: steps that have not begun leave, new ones join. What has begun stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangePlan {
    plan_id: String,
    #[schemars(description = format!("That of the plan now: 1 when it is made; {} says it.", ReadPlan::NAME))]
    version: i32,
    /// Paths of steps.
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    #[schemars(
        with = "Vec<Map<String, Value>>",
        description = format!("Steps, as those of {}, with new ids.", CreatePlan::NAME)
    )]
    add: Vec<Value>,
    #[schemars(with = "Option<String>")]
    output: Option<Value>,
    /// One line for your user.
    reason: String,
}

/// Why a patch is refused.
enum Refused {
    Problems(Vec<Problem>),
    /// Its steps would need a person's yes.
    Asks(String),
}

impl Access for ChangePlan {
    fn check(&self, context: &CallContext) -> Result<()> {
        parse_id(&self.plan_id, kind(context)?)?;
        one_line("reason", self.reason.as_str(), MAX_REASON_CHARS)
    }

    async fn apply(&self, context: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let kind = kind(context)?;
        let id = parse_id(&self.plan_id, kind)?;
        let public_id = id.public_id(&kind.kind);
        let plan = tx.plan(id).await?.ok_or_else(|| not_found(&public_id))?;
        let tools: Vec<&str> = plan.tools.iter().map(String::as_str).collect();
        let before = plan.read()?;
        let mut change = json!({"remove": self.remove, "add": self.add});
        if let Some(output) = &self.output {
            change["output"] = output.clone();
        }
        let rule = |document: &Value, states: &States| {
            let offer = Offer { tools: &tools, steps: Limits::default().steps_of_model };
            match patch(document, states, &change, offer).map_err(Refused::Problems)? {
                Patched::Changed { json, document, states, .. } => {
                    let why = asks(&document, kind);
                    if let Some(why) = why.filter(|_| asks(&before, kind).is_none()) {
                        return Err(Refused::Asks(why));
                    }
                    Ok(PlanChange { document: json, states, reason: self.reason.clone() })
                }
                // The tool has no such field.
                Patched::GivenUp(_) => Err(Refused::Problems(Vec::new())),
            }
        };
        let changed = tx.change_plan(id, self.version, rule).await?;
        changed.map_err(|refusal| refused(&public_id, refusal))?;
        let version = self.version.saturating_add(1);
        Ok(format!("Changed {public_id}, which has version {version} now."))
    }
}

fn refused(id: &str, refusal: PlanRefusal<Refused>) -> Refusal {
    let (name, read, create) = (ChangePlan::NAME, ReadPlan::NAME, CreatePlan::NAME);
    let (code, text) = match refusal {
        PlanRefusal::Ended(status) => (
            ToolErrorCode::PermissionDenied,
            format!("{id} has ended ({}): make another plan", status.as_str()),
        ),
        PlanRefusal::Stale(version) => (
            ToolErrorCode::ValidationError,
            format!(
                "{name}: /version: {id} has version {version} by now. Read it with {read}, then change that version"
            ),
        ),
        PlanRefusal::Refused(Refused::Problems(problems)) => (
            ToolErrorCode::ValidationError,
            format!("{name}: mend the change and call this again:\n{}", problem_lines(&problems)),
        ),
        PlanRefusal::Refused(Refused::Asks(why)) => (
            ToolErrorCode::PermissionDenied,
            format!("/add: a change cannot ask your user, and {why}. Make it a plan of its own: {create}"),
        ),
    };
    failed(code, text)
}
