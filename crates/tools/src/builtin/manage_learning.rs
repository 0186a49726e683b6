//! `manage_learning`: adds, corrects and removes learnings.

use houston_domain::capability::Capability;
use houston_domain::id::LearningId;
use houston_domain::knowledge::MAX_SENTENCE_BYTES;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "manage_learning";

/// Adds, corrects or removes a learning. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct ManageLearning(ToolDefinition);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Update,
    Remove,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    action: Action,
    content: Option<String>,
    learning_id: Option<LearningId>,
}

impl Default for ManageLearning {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Remember something lasting about the user or the goal (a preference, a fact, a \
                          constraint), correct it, or forget it. What you remember is listed in <learnings>."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["add", "update", "remove"]},
                    "content": {"type": "string", "description": "One sentence; for add and update."},
                    "learning_id": {"type": "string",
                                    "description": "An id from <learnings>; for update and remove."},
                },
                "required": ["action"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ManageLearning {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Learnings)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { action, content, learning_id } = input::read(NAME, input)?;
        let content = || {
            let text = content.ok_or_else(|| InvalidInput(format!("{NAME}: this action needs `content`")))?;
            input::text(NAME, "content", text, MAX_SENTENCE_BYTES)
        };
        let id = || {
            learning_id.ok_or_else(|| {
                InvalidInput(format!("{NAME}: this action needs `learning_id`, an id from <learnings>"))
            })
        };
        Ok(Plan::Record(match action {
            Action::Add => Record::AddLearning { content: content()? },
            Action::Update => Record::UpdateLearning { id: id()?, content: content()? },
            Action::Remove => Record::RemoveLearning { id: id()? },
        }))
    }
}
