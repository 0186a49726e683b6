//! `read_skill_file`: reads a file of a skill, or all of its SKILL.md.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
use houston_domain::skill::entry::TEXT_FILE;
use houston_domain::skill::{SkillSummary, USE_SKILL, file};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::run_code;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::skills::{none, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Situation, Tool};

const NAME: &str = "read_skill_file";

pub(super) struct ReadSkillFile(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    path: String,
}

/// Reads a file of a stored skill.
#[derive(Debug)]
struct ReadFile {
    skill: SkillSummary,
    path: String,
}

impl Default for ReadSkillFile {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Read a file of a skill. A script in JavaScript or TypeScript can be run with {}, if you have that tool; \
                 others cannot be run.",
                run_code::NAME
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The skill."},
                    "path": {"type": "string", "description": "As the skill names it: references/….md, scripts/….js."},
                },
                "required": ["name", "path"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadSkillFile {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
    }

    fn offered(&self, situation: Situation) -> bool {
        situation.has_skills
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Skills)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { name, path } = input::read(NAME, input)?;
        let path = path.trim().trim_start_matches("./").to_owned();
        let Some(skills) = &context.skills else { return Ok(Plan::Answer(none())) };
        let skill = match skills.find(&name) {
            Ok(skill) => skill,
            Err(unknown) => return Ok(Plan::Answer(unknown)),
        };
        if path != TEXT_FILE && !file::is_path(&path) {
            return Err(InvalidInput(format!(
                "{NAME}: `path` must be {TEXT_FILE}, or a file in scripts/, references/ or assets/, as references/api.md"
            )));
        }
        Ok(match skills.bundled(skill) {
            Some(bundled) => {
                let text = if path == TEXT_FILE { Some(&bundled.text) } else { bundled.files.get(&path) };
                Plan::Answer(text.map_or_else(|| missing(&skill.name, &path), ToolResponse::success))
            }
            None => Plan::record(ReadFile { skill: skill.clone(), path }),
        })
    }
}

impl Record for ReadFile {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let (SkillSummary { name, source, .. }, path) = (&self.skill, &self.path);
            let text = match path.as_str() {
                TEXT_FILE => tx.skill_text(*source, name).await?.map(|skill| skill.text),
                path => tx.skill_file(*source, name, path).await?,
            };
            Ok(text.map_or_else(|| missing(name, path), ToolResponse::success))
        })
    }
}

fn missing(skill: &str, path: &str) -> ToolResponse {
    not_found(format!("the skill {skill} has no file {path}: {USE_SKILL} names its files"))
}
