//! `create_plan`: makes a plan, whose steps are carried out side by side.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use houston_domain::id::AgentableId;
use houston_domain::plan::{Document, Heading, Offer, States, checklist};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::plan::NewPlan;
use houston_store::record::{RecordIds, RecordTx};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{NewPlanInfo, NewTaskInfo, Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, TaskKind, Tool};

pub(super) const NAME: &str = "create_plan";

/// Steps of a plan that a model writes.
const MAX_STEPS: usize = 30;
/// How long a plan may take that its run waits for, and one that it does not wait for.
const ATTACHED: TimeDelta = TimeDelta::seconds(600);
const DETACHED: TimeDelta = TimeDelta::seconds(86_400);

/// Makes a plan. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct CreatePlan(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    goal: String,
    steps: Vec<Value>,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    detached: bool,
}

impl Default for CreatePlan {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Carry out several steps that do not depend on what you say in between: side by side where they \
                          can be. A step reads the result of another as {{ id.result }}, and then waits for it. You go \
                          on when the plan has ended, with all results. Use it for three operations or more; call the \
                          tools yourself for fewer."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "goal": {"type": "string", "description": "One line that says what the plan is for."},
                    "steps": {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": {"type": "object"},
                        "description":
                        "Each has `id` (a_z), `title`, `type`, and the fields of its type. tool: `tool`, `args`. llm: `prompt`. \
                         task (an agent of its own): `instructions`, `tools`. input (asks the user): `question`. condition: \
                         `if`, `then`, `else`. parallel: `steps`. loop: `over` (an expression), `as`, `max`, `steps`. \
                         Example: [{\"id\": \"find\", \"type\": \"tool\", \"title\": \"Search\", \"tool\": \"…\", \
                         \"args\": {\"query\": \"hotels\"}}, {\"id\": \"pick\", \"type\": \"llm\", \"title\": \"Pick one\", \
                         \"prompt\": \"Pick one: {{ find.result }}\"}]"},
                    "output": {"type": "string", "description": "What the plan results in, as in {{ pick.result }}."},
                    "detached": {"type": "boolean", "description":
                        "true: do not wait for the plan; a message says when it has ended."},
                },
                "required": ["goal", "steps"],
                "additionalProperties": false,
            }).into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for CreatePlan {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { goal, steps, output, detached } = input::read(NAME, input)?;
        let Some(kind) = context.tasks.iter().find(|kind| kind.is_plan) else {
            let reason = "you cannot make plans: do it step by step, with your own tools";
            return Ok(Plan::Answer(ToolResponse::failure(ToolErrorCode::PermissionDenied, reason)));
        };
        let mut document = json!({"v": 1, "goal": goal, "steps": steps});
        if let Some(output) = output {
            document["output"] = output;
        }
        let names: Vec<&str> = kind.tools.iter().map(String::as_str).collect();
        let parsed = Document::parse(&document.to_string(), Offer { tools: &names, steps: MAX_STEPS });
        let parsed = parsed.map_err(|problems| {
            let lines: Vec<String> =
                problems.iter().map(|problem| format!("{}: {}", problem.pointer, problem.message)).collect();
            InvalidInput(format!("{NAME}: mend the plan and call this again:\n{}", lines.join("\n")))
        })?;
        let lasts = if detached { DETACHED } else { ATTACHED };
        let title = parsed.goal.chars().take(120).collect();
        let (kind, deadline) = (kind.clone(), context.now + lasts);
        Ok(Plan::record(Call { parsed, document, title, kind, attached: !detached, deadline }))
    }
}

/// A plan to be made.
#[derive(Debug)]
struct Call {
    parsed: Document,
    document: Value,
    title: String,
    kind: TaskKind,
    attached: bool,
    deadline: chrono::DateTime<chrono::Utc>,
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
                input: &Value::Null,
                attached: self.attached,
                deadline: self.deadline,
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
