//! `list_skills`: the names and purposes of the skills that a run has.

use houston_domain::capability::Capability;
use houston_domain::skill::entry;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::skills::none;
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

pub const NAME: &str = "list_skills";

pub(super) struct ListSkills(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {}

impl Default for ListSkills {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "List skills: instructions for kinds of tasks, with name and purpose.".to_owned(),
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}).into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListSkills {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.has_skills
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Skills)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input {} = input::read(NAME, input)?;
        let Some(skills) = &context.skills else { return Ok(Plan::Answer(none())) };
        let lines: Vec<String> = skills.available().iter().map(entry::line).collect();
        Ok(Plan::Answer(ToolResponse::success(lines.join("\n"))))
    }
}
