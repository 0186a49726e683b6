//! `list_learnings`: lists learnings, also those that the prompt does not contain.

use houston_domain::capability::Capability;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde_json::Value;

use crate::listing;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "list_learnings";
/// Learnings are listed in full: a page has at most 40 KB.
const MAX_ITEMS: u32 = 20;

/// Lists learnings, newest first.
#[derive(Debug)]
pub(super) struct ListLearnings(ToolDefinition);

impl Default for ListLearnings {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description:
                "Find what you have learnt for this goal, newest first, in full. <learnings> has only some."
                    .to_owned(),
            input_schema: listing::schema(MAX_ITEMS),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListLearnings {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Learnings)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let listing = listing::read(NAME, input, MAX_ITEMS)?;
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::ListLearnings(listing))))
    }
}
