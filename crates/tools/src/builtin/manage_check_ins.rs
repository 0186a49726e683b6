//! `manage_check_ins`: lists and cancels the agent's own check-ins.

use houston_domain::id::CheckInId;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "manage_check_ins";

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
            }),
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
        Ok(Plan::Record(match (action, id) {
            (Action::List, _) => Record::ListCheckIns,
            (Action::Cancel, Some(id)) => Record::CancelCheckIn { id },
            (Action::Cancel, None) => {
                return Err(InvalidInput(format!(
                    "{NAME}: `cancel` needs the `id` of a check-in; the action `list` returns them"
                )));
            }
        }))
    }
}
