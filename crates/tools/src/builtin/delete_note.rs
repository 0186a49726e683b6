//! `delete_note`: deletes a note.

use houston_domain::capability::Capability;
use houston_domain::id::NoteId;
use houston_domain::knowledge::KnowledgeKind;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_notes;
use crate::input;
use crate::record::{Record, RecordFuture, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "delete_note";

/// Deletes a note. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct DeleteNote(ToolDefinition);

#[derive(Debug, Deserialize)]
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
                "properties": {"note_id": {"type": "string", "description":
                        format!("An id from <notes> or {}.", list_notes::NAME)}},
                "required": ["note_id"],
                "additionalProperties": false,
            })
            .into(),
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
        Ok(Plan::record(Input { note_id }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let id = self.note_id;
            Ok(if tx.delete_item(KnowledgeKind::Note, id).await? {
                ToolResponse::success(format!("Deleted {id}."))
            } else {
                not_found(id, list_notes::NAME)
            })
        })
    }
}
