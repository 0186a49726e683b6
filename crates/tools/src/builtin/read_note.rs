//! `read_note`: reads a complete note.

use houston_domain::capability::Capability;
use houston_domain::id::NoteId;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "read_note";

/// Reads a note.
#[derive(Debug)]
pub(super) struct ReadNote(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    note_id: NoteId,
}

impl Default for ReadNote {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read one note of this goal in full.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"note_id": {"type": "string", "description": "An id from <notes> or list_notes."}},
                "required": ["note_id"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadNote {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Notes)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { note_id } = input::read(NAME, input)?;
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::ReadNote(note_id))))
    }
}
