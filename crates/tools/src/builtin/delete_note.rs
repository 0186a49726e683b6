//! `delete_note`: deletes a note.

use houston_domain::capability::Capability;
use houston_domain::id::NoteId;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "delete_note";

/// Deletes a note. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct DeleteNote(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    note_id: NoteId,
}

impl Default for DeleteNote {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Delete a note of this goal for good. Do it only when the user wants it gone."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"note_id": {"type": "string", "description": "An id from <notes> or list_notes."}},
                "required": ["note_id"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for DeleteNote {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Notes)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { note_id } = input::read(NAME, input)?;
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::DeleteNote(note_id))))
    }
}
