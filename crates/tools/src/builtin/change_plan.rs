//! `change_plan`: other steps for a plan of the agent that has begun.

use houston_domain::id::AgentableId;
use houston_domain::plan::{Document, Limits, Offer, Patched, Problem, States, patch};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::plan::{PlanChange, PlanRefusal};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{create_plan, read_plan};
use crate::input;
use crate::plans;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, TaskKind, Tool};

pub(super) const NAME: &str = "change_plan";

/// Length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// Changes a plan by a patch. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct ChangePlan(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    plan_id: String,
    version: i32,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    add: Vec<Value>,
    output: Option<Value>,
    reason: String,
}

impl Default for ChangePlan {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Change a plan that has not ended: steps that have not begun leave, new ones join. What has begun \
                          stays as it is."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "plan_id": {"type": "string"},
                    "version": {"type": "integer", "description":
                        format!("That of the plan now: 1 when it is made; {} says it.", read_plan::NAME)},
                    "remove": {"type": "array", "items": {"type": "string"}, "description": "Paths of steps."},
                    "add": {"type": "array", "items": {"type": "object"}, "description":
                        format!("Steps, as those of {}, with new ids.", create_plan::NAME)},
                    "output": {"type": "string"},
                    "reason": {"type": "string", "description": "One line for your user."},
                },
                "required": ["plan_id", "version", "reason"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ChangePlan {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.makes_plans
    }

    fn takes_expressions(&self) -> bool {
        true
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { plan_id, version, remove, add, output, reason } = input::read(NAME, input)?;
        let kind = match plans::kind(context) {
            Ok(kind) => kind.clone(),
            Err(refusal) => return Ok(Plan::Answer(refusal)),
        };
        let id = plans::id(NAME, &plan_id, &kind)?;
        let reason = input::line(NAME, "reason", reason, MAX_REASON_CHARS)?;
        let mut patch = json!({"remove": remove, "add": add});
        if let Some(output) = output {
            patch["output"] = output;
        }
        Ok(Plan::record(Change { id, version, patch, reason, kind }))
    }
}

#[derive(Debug)]
struct Change {
    id: AgentableId,
    version: i32,
    patch: Value,
    reason: String,
    kind: TaskKind,
}

/// Why a patch is refused.
enum Refused {
    Problems(Vec<Problem>),
    /// Its steps would need a person's yes.
    Asks(String),
}

impl Record for Change {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let public_id = self.id.public_id(&self.kind.kind);
            let Some(plan) = tx.plan(self.id).await? else { return Ok(read_plan::not_found(&public_id)) };
            let tools: Vec<&str> = plan.tools.iter().map(String::as_str).collect();
            let before = plan.read()?;
            let rule = |document: &Value, states: &States| self.patched(document, states, &tools, &before);
            let done = tx.change_plan(self.id, self.version, rule).await?;
            Ok(match done {
                Ok(()) => ToolResponse::success(format!(
                    "Changed {public_id}, which has version {} now.",
                    self.version.saturating_add(1)
                )),
                Err(refusal) => refused(&public_id, refusal),
            })
        })
    }
}

impl Change {
    fn patched(
        &self,
        document: &Value,
        states: &States,
        tools: &[&str],
        before: &Document,
    ) -> Result<PlanChange, Refused> {
        let offer = Offer { tools, steps: Limits::default().steps_of_model };
        match patch(document, states, &self.patch, offer).map_err(Refused::Problems)? {
            Patched::Changed { json, document, states, .. } => {
                let asks = plans::asks(&document, &self.kind);
                if let Some(why) = asks.filter(|_| plans::asks(before, &self.kind).is_none()) {
                    return Err(Refused::Asks(why));
                }
                Ok(PlanChange { document: json, states, reason: self.reason.clone() })
            }
            // The tool has no such field.
            Patched::GivenUp(_) => Err(Refused::Problems(Vec::new())),
        }
    }
}

fn refused(id: &str, refusal: PlanRefusal<Refused>) -> ToolResponse {
    match refusal {
        PlanRefusal::Ended(status) => ToolResponse::failure(
            ToolErrorCode::PermissionDenied,
            format!("{id} has ended ({}): make another plan", status.as_str()),
        ),
        PlanRefusal::Stale(version) => ToolResponse::failure(
            ToolErrorCode::ValidationError,
            format!(
                "{NAME}: /version: {id} has version {version} by now. Read it with {}, then change that version",
                read_plan::NAME
            ),
        ),
        PlanRefusal::Refused(Refused::Problems(problems)) => ToolResponse::failure(
            ToolErrorCode::ValidationError,
            format!("{NAME}: mend the change and call this again:\n{}", plans::lines(&problems)),
        ),
        PlanRefusal::Refused(Refused::Asks(why)) => ToolResponse::failure(
            ToolErrorCode::PermissionDenied,
            format!(
                "/add: a change cannot ask your user, and {why}. Make it a plan of its own: {}",
                create_plan::NAME
            ),
        ),
    }
}
