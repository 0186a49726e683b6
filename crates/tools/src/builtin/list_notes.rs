//! `list_notes`: lists titles and beginnings of the agentable's notes.

use houston_domain::capability::Capability;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde_json::Value;

use crate::listing;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "list_notes";
/// A page of titles and beginnings has about 20 KB.
const MAX_ITEMS: u32 = 50;

/// Lists notes, newest first, shortened.
#[derive(Debug)]
pub(super) struct ListNotes(ToolDefinition);

impl Default for ListNotes {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Find notes of this goal, newest first: id, title and the beginning of each. read_note reads one in full."
                .to_owned(),
            input_schema: listing::schema(MAX_ITEMS),
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
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::ListNotes(listing))))
    }
}
