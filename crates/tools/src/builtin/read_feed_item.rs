//! `read_feed_item`: reads a complete item of the user's feed.

use houston_domain::capability::Capability;
use houston_domain::focus::Tier;
use houston_domain::id::FeedItemId;
use houston_domain::knowledge::KnowledgeKind;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list_feed_items;
use crate::input;
use crate::record::{Record, RecordFuture, not_found};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};
use crate::untrusted;

pub(super) const NAME: &str = "read_feed_item";

/// Reads a feed item.
#[derive(Debug)]
pub(super) struct ReadFeedItem(ToolDefinition);

#[derive(Debug, Deserialize)]
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
                "properties": {"feed_item_id": {"type": "string", "description":
                    format!("An id from {}.", list_feed_items::NAME)}},
                "required": ["feed_item_id"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ReadFeedItem {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn tier(&self) -> Tier {
        Tier::Detail
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Feed)
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { feed_item_id } = input::read(NAME, input)?;
        Ok(Plan::record(Input { feed_item_id }))
    }
}

impl Record for Input {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let id = self.feed_item_id;
            Ok(match tx.item(KnowledgeKind::FeedItem, id).await? {
                Some(item) => {
                    let title = item.title.unwrap_or_default();
                    let text = format!("{title}\n{}", item.content);
                    let text = untrusted::stored(item.untrusted, &id.to_string(), text);
                    ToolResponse::success(format!("{id}: {text}"))
                }
                None => not_found(id, list_feed_items::NAME),
            })
        })
    }
}
