//! `get_tool_help`: everything about one tool whose definition the model was not sent.

use std::sync::Arc;

use houston_domain::inner_call::USE_TOOL;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::many::{Catalogue, help};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "get_tool_help";

/// Describes a tool of the run.
pub(crate) struct GetToolHelp {
    definition: ToolDefinition,
    catalogue: Arc<Catalogue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    tool_name: String,
}

impl GetToolHelp {
    pub(crate) fn new(catalogue: Arc<Catalogue>) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "The arguments of a tool, with an example. Read it before the first {USE_TOOL} of that tool."
            ),
            input_schema: json!({
                "type": "object",
                "properties": {"tool_name": {"type": "string"}},
                "required": ["tool_name"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, catalogue }
    }
}

impl Tool for GetToolHelp {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { tool_name } = input::read(NAME, input)?;
        Ok(Plan::Answer(match self.catalogue.get(tool_name.trim(), &context.guards) {
            Some(entry) => ToolResponse::success(help(&entry)),
            None => ToolResponse::failure(
                ToolErrorCode::NotFound,
                self.catalogue.no_such_tool(&tool_name, &context.guards),
            ),
        }))
    }
}
