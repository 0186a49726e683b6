//! `update_note`: changes the title or content of a note.

use houston_domain::capability::Capability;
use houston_domain::field::Entity;
use houston_domain::id::NoteId;
use houston_domain::knowledge::{KnowledgeKind, MAX_DOCUMENT_BYTES, MAX_TITLE_CHARS};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::knowledge_item::KnowledgeChange;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_notes;
use crate::input;
use crate::record::{Record, RecordFuture, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "update_note";

/// Changes a note. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct UpdateNote(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    note_id: NoteId,
    title: Option<String>,
    content: Option<String>,
}

impl Default for UpdateNote {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Change a note of this goal: its title, its content, or both. What you give takes the place of what was there; \
                 read it first."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": Entity::Note.properties(json!({
                    "note_id": {"type": "string", "description":
                        format!("An id from <notes> or {}.", list_notes::NAME)},
                })),
                "required": ["note_id"],
                "additionalProperties": false,
            }).into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for UpdateNote {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Notes)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { note_id, title, content } = input::read_change(NAME, Entity::Note, input)?;
        if title.is_none() && content.is_none() {
            return Err(InvalidInput(format!("{NAME}: give `title`, `content` or both")));
        }
        let title = title.map(|title| input::line(NAME, "title", title, MAX_TITLE_CHARS)).transpose()?;
        let content = input::optional_text(NAME, "content", content, MAX_DOCUMENT_BYTES)?;
        Ok(Plan::record(Input { note_id, title, content }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let id = self.note_id;
            let (title, content) = (self.title.as_deref(), self.content.as_deref());
            let change = KnowledgeChange { title, content, ..KnowledgeChange::default() };
            Ok(match tx.change_item(KnowledgeKind::Note, id, change).await? {
                Some(note) => {
                    ToolResponse::success(format!("Changed {id}: {}", note.title.unwrap_or_default()))
                }
                None => not_found(id, list_notes::NAME),
            })
        })
    }
}
