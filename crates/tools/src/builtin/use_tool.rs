//! `use_tool`: calls a tool whose definition the model was not sent.

use houston_domain::inner_call::{ARGUMENTS, TOOL_NAME, USE_TOOL};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde_json::{Value, json};

use super::{get_tool_help, search_tools};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

/// Its calls are planned as calls of the inner tool ([`houston_domain::inner_call`]). Only one that names none comes here.
pub(crate) struct UseTool {
    definition: ToolDefinition,
}

impl UseTool {
    pub(crate) fn new() -> Self {
        let definition = ToolDefinition {
            name: USE_TOOL.to_owned(),
            description: format!(
                "Call a tool found with {}. Wrong arguments are answered with the help of that tool.",
                search_tools::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    TOOL_NAME: {"type": "string"},
                    ARGUMENTS: {"type": "object", "description": format!("As {} says.", get_tool_help::NAME)},
                },
                "required": [TOOL_NAME, ARGUMENTS],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition }
    }
}

impl Tool for UseTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let name = input.get(TOOL_NAME).and_then(Value::as_str).unwrap_or_default().trim();
        Err(InvalidInput(match name {
            "" => format!("{USE_TOOL}: `{TOOL_NAME}` must be the name of a tool"),
            USE_TOOL => format!("{USE_TOOL}: `{TOOL_NAME}` must be another tool than {USE_TOOL} itself"),
            name => format!("{USE_TOOL}: `{ARGUMENTS}` of {name} must be a JSON object"),
        }))
    }
}
