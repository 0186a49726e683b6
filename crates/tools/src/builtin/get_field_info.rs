//! `get_field_info`: what may be changed of a thing, to what, and by whom.

use houston_domain::field::Entity;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "get_field_info";

/// Shows the table of an entity, or one row of it.
#[derive(Debug)]
pub(super) struct GetFieldInfo(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    entity: String,
    field: Option<String>,
}

impl Default for GetFieldInfo {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Which fields of a thing may be changed, to what, and by whom: api (your user, in their app), \
                          agent (you, with a tool) or both."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "entity": {"type": "string", "enum": Entity::ALL.map(Entity::as_str)},
                    "field": {"type": "string", "description": "One field; without it, all."},
                },
                "required": ["entity"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for GetFieldInfo {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { entity, field } = input::read(NAME, input)?;
        let Some(entity) = Entity::from_name(entity.trim()) else {
            let all = Entity::ALL.map(Entity::as_str).join(", ");
            return Err(InvalidInput(format!("{NAME}: `entity` must be one of {all}")));
        };
        let answer = match field.as_deref().map(str::trim) {
            None => json!(entity.fields()),
            Some(name) => match entity.field(name) {
                Some(field) => json!(field),
                None => {
                    let reason =
                        format!("a {} has no field of this name; {}", entity.as_str(), entity.updatable());
                    return Ok(Plan::Answer(ToolResponse::failure(ToolErrorCode::NotFound, reason)));
                }
            },
        };
        Ok(Plan::Answer(ToolResponse::success(answer.to_string())))
    }
}
