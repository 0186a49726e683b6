//! `create_plan`: makes a plan, whose steps are carried out side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use houston_domain::id::AgentableId;
use houston_domain::plan::{Document, Heading, Limits, Offer, States, Templates, checklist, model_schema};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::plan::NewPlan;
use houston_store::record::{RecordIds, RecordTx};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input;
use crate::outside::Outside;
use crate::plans;
use crate::record::{NewPlanInfo, NewTaskInfo, Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, TaskKind, Tool};

pub const NAME: &str = "create_plan";

/// Makes a plan. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct CreatePlan {
    definition: ToolDefinition,
    templates: Arc<Templates>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
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
    pub(super) fn new(outside: &Outside) -> Self {
        let templates = Arc::clone(&outside.plan_templates);
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: "Carry out several steps that do not depend on what you say in between: side by side where they \
                          can be. A step reads the result of another as {{ id.result }}, and then waits for it. You go \
                          on when the plan has ended, with all results. Use it for three operations or more; call the \
                          tools yourself for fewer. Types of steps with their fields: tool (tool, args), llm (prompt), task: an \
                          agent of its own (instructions, tools), input: asks your user (question), condition (if, then, \
                          else), parallel (steps), loop (over, as, max, steps). For example {\"id\": \"pick\", \"type\": \
                          \"llm\", \"title\": \"Pick one\", \"prompt\": \"Pick one: {{ find.result }}\"}"
                .to_owned(),
            input_schema: schema(&templates).into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, templates }
    }

    /// The document of a call.
    fn document(&self, input: &Input) -> Result<Value, InvalidInput> {
        let Input { goal, steps, template, input, output, .. } = input;
        let wrong = |reason: String| InvalidInput(format!("{NAME}: {reason}"));
        let mut document = match (steps, template) {
            (Some(steps), None) => json!({"v": 1, "goal": goal, "steps": steps}),
            (None, Some(name)) => {
                let template = self.templates.get(name).map_err(|why| wrong(format!("/template: {why}")))?;
                template
                    .check_input(&Value::Object(input.clone()))
                    .map_err(|problem| wrong(format!("/input{}: {}", problem.pointer, problem.message)))?;
                let mut document = template.document.clone();
                document["goal"] = json!(goal);
                document
            }
            _ => return Err(wrong("give either `steps` or `template`".to_owned())),
        };
        if let Some(output) = output {
            document["output"] = output.clone();
        }
        Ok(document)
    }
}

impl Tool for CreatePlan {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.makes_plans
    }

    fn takes_expressions(&self) -> bool {
        true
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let given: Input = input::read(NAME, input)?;
        let kind = match plans::kind(context) {
            Ok(kind) => kind,
            Err(refusal) => return Ok(Plan::Answer(refusal)),
        };
        let limits = Limits::default();
        let document = self.document(&given)?;
        let names: Vec<&str> = kind.tools.iter().map(String::as_str).collect();
        let steps = if given.template.is_some() { limits.steps_of_request } else { limits.steps_of_model };
        let offer = Offer { tools: &names, steps };
        let parsed = Document::parse(&document.to_string(), offer).map_err(|problems| {
            InvalidInput(format!("{NAME}: mend the plan and call this again:\n{}", plans::lines(&problems)))
        })?;
        let Input { detached, input, .. } = given;
        let lasts = if detached { limits.detached_s } else { limits.attached_s };
        let title = parsed.goal.chars().take(120).collect();
        let (asks, deadline) = (plans::asks(&parsed, kind), context.now + TimeDelta::seconds(lasts.into()));
        let kind = kind.clone();
        let input = Value::Object(input);
        Ok(Plan::record(Call { parsed, document, input, title, kind, attached: !detached, deadline, asks }))
    }
}

/// A plan to be made.
#[derive(Debug)]
struct Call {
    parsed: Document,
    document: Value,
    input: Value,
    title: String,
    kind: TaskKind,
    attached: bool,
    deadline: chrono::DateTime<chrono::Utc>,
    asks: Option<String>,
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let (counts, limits) = (tx.task_counts().await?, tx.limits().tasks);
            if let Some(refusal) =
                super::create_task::refusal(&counts, &limits, tx.knowledge_limits().max_notes)
            {
                return Ok(refusal);
            }
            let RecordIds { row, run, message } = tx.ids();
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
            tx.create_plan(&plan, counts.depth + 1).await?;
            let follows = if self.attached {
                "You go on when it has ended."
            } else {
                "A message says when it has ended."
            };
            Ok(ToolResponse::success(format!("Made {}. {follows}", id.public_id(&self.kind.kind))))
        })
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
    #[must_use]
    pub fn checklist(&self, plan_id: &str) -> Value {
        let questions = BTreeMap::new();
        let heading =
            Heading { plan_id: Some(plan_id), version: 1, status: "running", questions: &questions };
        json!(checklist(self.document, &States::new(), heading))
    }
}
