//! `use_skill`: reads the instructions of a skill, once per session.

use houston_domain::capability::Capability;
use houston_domain::skill::entry::instructions;
use houston_domain::skill::{SkillSummary, USE_SKILL as NAME};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_skills;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::skills::{none, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

pub(super) struct UseSkill(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
}

/// Reads the text of a stored skill.
#[derive(Debug)]
struct ReadText(SkillSummary);

impl Default for UseSkill {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read a skill: instructions to follow for a kind of task.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string", "description": format!("A name from <skills> or {}.", list_skills::NAME)}},
                "required": ["name"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for UseSkill {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.has_skills
    }

    fn is_for_code(&self) -> bool {
        false
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Skills)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name } = input::read(NAME, input)?;
        let Some(skills) = &context.skills else { return Ok(Plan::Answer(none())) };
        let skill = match skills.find(&name) {
            Ok(skill) => skill,
            Err(unknown) => return Ok(Plan::Answer(unknown)),
        };
        if skills.is_read(&skill.name) {
            let text = format!(
                "You have read {} in this conversation already: follow what it says above.",
                skill.name
            );
            return Ok(Plan::Answer(ToolResponse::success(text)));
        }
        Ok(match skills.bundled(skill) {
            Some(bundled) => {
                let files: Vec<String> = bundled.files.keys().cloned().collect();
                Plan::Answer(ToolResponse::success(instructions(&bundled.text, &files)))
            }
            None => Plan::record(ReadText(skill.clone())),
        })
    }
}

impl Record for ReadText {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let SkillSummary { name, source, .. } = &self.0;
            Ok(match tx.skill_text(*source, name).await? {
                Some(skill) => ToolResponse::success(instructions(&skill.text, &skill.files)),
                None => not_found(format!("the skill {name} was deleted")),
            })
        })
    }
}
