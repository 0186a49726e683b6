//! `create_note`: creates a note of the agentable.

use houston_domain::capability::Capability;
use houston_domain::id::NoteId;
use houston_domain::knowledge::{KnowledgeKind, MAX_DOCUMENT_BYTES, MAX_TITLE_CHARS};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture, created};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "create_note";

/// Creates a note. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct CreateNote(ToolDefinition);

#[derive(Debug, Deserialize)]
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
            })
            .into(),
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
        Ok(Plan::record(Input { title, content }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let done = tx.create_item(KnowledgeKind::Note, Some(&self.title), &self.content).await;
            created(done, || format!("Created {}: {}", NoteId(tx.ids().row), self.title))
        })
    }
}
