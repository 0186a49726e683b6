//! `list_feed_items`: lists titles and beginnings of the user's feed items.

use houston_domain::capability::Capability;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde_json::Value;

use crate::listing;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "list_feed_items";
/// A page of titles and beginnings has about 20 KB.
const MAX_ITEMS: u32 = 50;

/// Lists feed items, newest first, shortened.
#[derive(Debug)]
pub(super) struct ListFeedItems(ToolDefinition);

impl Default for ListFeedItems {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Find items of the user's feed, newest first: id, title and the beginning of each. read_feed_item reads one in full."
                .to_owned(),
            input_schema: listing::schema(MAX_ITEMS),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ListFeedItems {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Feed)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let listing = listing::read(NAME, input, MAX_ITEMS)?;
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::ListFeedItems(listing))))
    }
}
