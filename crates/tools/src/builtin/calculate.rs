//! `calculate`: exact arithmetic with units.

use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_sandbox::{Conversion, Converted, Sandbox};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::outside::Outside;
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

const NAME: &str = "calculate";
/// Characters of an expression.
const MAX_EXPRESSION: usize = 1_000;
/// Bytes of a result. Longer ones are of no use to a model.
const MAX_RESULT: usize = 2_000;

/// Calculates in a child process: an expression may be nested more deeply than a stack holds.
pub(super) struct Calculate {
    definition: ToolDefinition,
    sandbox: Option<Sandbox>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    expression: String,
}

impl Calculate {
    pub(super) fn new(outside: &Outside) -> Self {
        let definition = ToolDefinition {
            name: NAME.to_owned(),
            description: "Calculate exactly, with units: `0.1 + 0.2`, `20% of 85`, `5 ft 3 inches to cm`, `100 km/h to m/s`, \
                          `20 °C to °F`, `sqrt(2)`, `2^200`, `0xff to decimal`. No currencies."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"expression": {"type": "string", "maxLength": MAX_EXPRESSION}},
                "required": ["expression"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        };
        Self { definition, sandbox: outside.sandbox.clone() }
    }
}

impl Tool for Calculate {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn offered(&self, _situation: Situation) -> bool {
        self.sandbox.is_some()
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Calculation)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { expression } = input::read(NAME, input)?;
        let expression = input::text(NAME, "expression", expression, MAX_EXPRESSION)?;
        let sandbox = self.sandbox.clone();
        Ok(Plan::Execute(Box::pin(async move {
            let Some(sandbox) = sandbox else {
                let reason = "this machine cannot calculate safely: `houston doctor` says why";
                return ToolResponse::failure(ToolErrorCode::ConfigError, reason);
            };
            match sandbox.convert(Conversion::Calculation, expression.as_bytes(), MAX_RESULT).await {
                Ok(Converted::Text { text, cut: false }) => ToolResponse::success(text),
                Ok(Converted::Text { text, cut: true }) => {
                    ToolResponse::success(format!("{text}… (cut after {MAX_RESULT} bytes)"))
                }
                Ok(Converted::Unreadable(reason)) => {
                    let reason = format!("{NAME}: {reason}");
                    ToolResponse::failure(ToolErrorCode::ValidationError, reason)
                }
                Err(error) => ToolResponse::failure(ToolErrorCode::IoError, format!("{NAME}: {error}")),
            }
        })))
    }
}
