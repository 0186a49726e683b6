//! `read_note`: reads a complete note.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
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
use crate::untrusted;

pub(super) const NAME: &str = "read_note";

/// Reads a note.
#[derive(Debug)]
pub(super) struct ReadNote(ToolDefinition);

#[derive(Debug, Deserialize)]
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
                "properties": {"note_id": {"type": "string", "description":
                        format!("An id from <notes> or {}.", list_notes::NAME)}},
                "required": ["note_id"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadNote {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
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
            Ok(match tx.item(KnowledgeKind::Note, id).await? {
                Some(item) => {
                    let title = item.title.unwrap_or_default();
                    let text = format!("{title}\n{}", item.content);
                    let text = untrusted::stored(item.untrusted, &id.to_string(), text);
                    ToolResponse::success(format!("{id}: {text}"))
                }
                None => not_found(id, list_notes::NAME),
            })
        })
    }
}
