//! Skills: instructions for kinds of tasks, with files.

use houston_domain::skill::entry::{self, TEXT_FILE, instructions};
use houston_domain::skill::{SkillSummary, USE_SKILL, file};

use super::prelude::*;
use super::run_code::RunCode;
use crate::skills::{Skills, not_found};

built_in! {
    ListSkills: "list_skills", Read, capability Skills, needs Skills;
    UseSkill: USE_SKILL, Read, capability Skills, needs Skills, for_code false;
    ReadSkillFile: "read_skill_file", Read, capability Skills, needs Skills;
}

/// The skills of the run. One without may have calls in its history.
fn skills(context: &CallContext) -> Result<&Skills, Refusal> {
    context.skills.as_deref().ok_or_else(|| not_found("there are no skills".to_owned()))
}

/// List skills: instructions for kinds of tasks, with name and purpose.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSkills {}

impl BuiltIn for ListSkills {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let lines: Vec<String> = skills(context)?.available().iter().map(entry::line).collect();
        Ok(Plan::Answer(ToolResponse::success(lines.join("\n"))))
    }
}

/// Read a skill: instructions to follow for a kind of task.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UseSkill {
    #[schemars(description = format!("A name from <skills> or {}.", ListSkills::NAME))]
    name: String,
}

impl BuiltIn for UseSkill {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let skills = skills(context)?;
        let skill = skills.find(&self.name)?;
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
            None => Plan::record(ReadText(skill.clone()), context),
        })
    }
}

/// Reads the text of a stored skill.
#[derive(Debug)]
struct ReadText(SkillSummary);

impl Access for ReadText {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let SkillSummary { name, source, .. } = &self.0;
        let skill = tx.skill_text(*source, name).await?;
        let skill = skill.ok_or_else(|| not_found(format!("the skill {name} was deleted")))?;
        Ok(instructions(&skill.text, &skill.files))
    }
}

/// Reads a file of a skill, or all of its SKILL.md.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = format!(
    "Read a file of a skill. A script in JavaScript or TypeScript can be run with {}, if you have that tool; others \
     cannot be run.",
    RunCode::NAME
))]
pub(super) struct ReadSkillFile {
    /// The skill.
    name: String,
    /// As the skill names it: references/….md, scripts/….js.
    path: String,
}

impl BuiltIn for ReadSkillFile {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let path = self.path.trim().trim_start_matches("./").to_owned();
        let skills = skills(context)?;
        let skill = skills.find(&self.name)?;
        if path != TEXT_FILE && !file::is_path(&path) {
            return Err(invalid(format!(
                "`path` must be {TEXT_FILE}, or a file in scripts/, references/ or assets/, as references/api.md"
            )));
        }
        Ok(match skills.bundled(skill) {
            Some(bundled) => {
                let text = if path == TEXT_FILE { Some(&bundled.text) } else { bundled.files.get(&path) };
                Plan::Answer(ToolResponse::success(text.ok_or_else(|| missing(&skill.name, &path))?))
            }
            None => Plan::record(ReadFile { skill: skill.clone(), path }, context),
        })
    }
}

/// Reads a file of a stored skill.
#[derive(Debug)]
struct ReadFile {
    skill: SkillSummary,
    path: String,
}

impl Access for ReadFile {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (SkillSummary { name, source, .. }, path) = (&self.skill, &self.path);
        let text = match path.as_str() {
            TEXT_FILE => tx.skill_text(*source, name).await?.map(|skill| skill.text),
            path => tx.skill_file(*source, name, path).await?,
        };
        text.ok_or_else(|| missing(name, path))
    }
}

fn missing(skill: &str, path: &str) -> Refusal {
    not_found(format!("the skill {skill} has no file {path}: {USE_SKILL} names its files"))
}
