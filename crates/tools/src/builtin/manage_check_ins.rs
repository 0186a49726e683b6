//! `manage_check_ins`: lists and cancels the agent's own check-ins.

use houston_domain::id::CheckInId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::check_in::PendingCheckIn;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "manage_check_ins";

/// Lists and cancels check-ins: written with the step.
#[derive(Debug)]
pub(super) struct ManageCheckIns(ToolDefinition);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Cancel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    action: Action,
    id: Option<CheckInId>,
}

impl Default for ManageCheckIns {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "List the check-ins you have set, or cancel one.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["list", "cancel"]},
                    "id": {"type": "string", "description": "Which one to cancel."},
                },
                "required": ["action"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ManageCheckIns {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { action, id } = input::read(NAME, input)?;
        Ok(Plan::record(match (action, id) {
            (Action::List, _) => Call::List,
            (Action::Cancel, Some(id)) => Call::Cancel(id),
            (Action::Cancel, None) => {
                return Err(InvalidInput(format!(
                    "{NAME}: `cancel` needs the `id` of a check-in; the action `list` returns them"
                )));
            }
        }))
    }
}

#[derive(Debug)]
enum Call {
    List,
    Cancel(CheckInId),
}

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            Ok(match self {
                Self::List => {
                    let pending = tx.check_ins().await?;
                    let line = |one: PendingCheckIn| format!("{} at {}: {}", one.id, one.local, one.reason);
                    let lines: Vec<String> = pending.into_iter().map(line).collect();
                    let none = "No check-in is set.".to_owned();
                    ToolResponse::success(if lines.is_empty() { none } else { lines.join("\n") })
                }
                Self::Cancel(id) if tx.cancel_check_in(*id).await? => {
                    ToolResponse::success(format!("Cancelled {id}."))
                }
                Self::Cancel(id) => ToolResponse::failure(
                    ToolErrorCode::NotFound,
                    format!("there is no {id}: {NAME} with `list` lists those that are set"),
                ),
            })
        })
    }
}
