//! `read_feed_item`: reads a complete item of the user's feed.

use houston_domain::capability::Capability;
use houston_domain::id::FeedItemId;
use houston_domain::knowledge::KnowledgeAction;
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "read_feed_item";

/// Reads a feed item.
#[derive(Debug)]
pub(super) struct ReadFeedItem(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    feed_item_id: FeedItemId,
}

impl Default for ReadFeedItem {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Read one item of the user's feed in full.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"feed_item_id": {"type": "string", "description": "An id from list_feed_items."}},
                "required": ["feed_item_id"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadFeedItem {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Feed)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { feed_item_id } = input::read(NAME, input)?;
        Ok(Plan::Record(Record::Knowledge(KnowledgeAction::ReadFeedItem(feed_item_id))))
    }
}
