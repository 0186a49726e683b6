//! `list_notes`: lists titles and beginnings of the agentable's notes.

use houston_domain::capability::Capability;
use houston_domain::id::NoteId;
use houston_domain::knowledge::{KnowledgeKind, ListQuery};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_store::record::RecordTx;
use serde_json::Value;

use super::read_note;
use crate::listing;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub const NAME: &str = "list_notes";
/// A page of titles and beginnings has about 20 KB.
const MAX_ITEMS: u32 = 50;

/// Lists notes, newest first, shortened.
#[derive(Debug)]
pub(super) struct ListNotes(ToolDefinition);

impl Default for ListNotes {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Find notes of this goal, newest first: id, title and the beginning of each. {} reads one in full.",
                read_note::NAME
            ),
            input_schema: listing::schema(MAX_ITEMS).into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListNotes {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Notes)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let listing = listing::read(NAME, input, MAX_ITEMS)?;
        Ok(Plan::record(List(listing)))
    }
}

#[derive(Debug)]
struct List(ListQuery<NoteId>);

impl Record for List {
    fn apply<'t>(&'t self, tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(listing::documents(tx, KnowledgeKind::Note, &self.0, read_note::NAME))
    }
}
