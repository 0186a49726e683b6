//! `create_note`: creates a note of the agentable.

use houston_domain::capability::Capability;
use houston_domain::knowledge::{MAX_DOCUMENT_BYTES, MAX_TITLE_CHARS};
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "create_note";

/// Creates a note. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct CreateNote(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    title: String,
    content: String,
}

impl Default for CreateNote {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Create a note that stays with this goal: results, decisions, lists.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "One line that says what the note is about."},
                    "content": {"type": "string", "description": "The note, in Markdown."},
                },
                "required": ["title", "content"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for CreateNote {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Notes)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { title, content } = input::read(NAME, input)?;
        let title = input::line(NAME, "title", title, MAX_TITLE_CHARS)?;
        let content = input::text(NAME, "content", content, MAX_DOCUMENT_BYTES)?;
        Ok(Plan::Record(Record::CreateNote { title, content }))
    }
}
