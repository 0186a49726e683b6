//! `list_feed_items`: lists titles and beginnings of the user's feed items.

use houston_domain::capability::Capability;
use houston_domain::id::FeedItemId;
use houston_domain::knowledge::{KnowledgeKind, ListQuery};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_store::record::RecordTx;
use serde_json::Value;

use super::read_feed_item;
use crate::listing;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub(super) const NAME: &str = "list_feed_items";
/// A page of titles and beginnings has about 20 KB.
const MAX_ITEMS: u32 = 50;

/// Lists feed items, newest first, shortened.
#[derive(Debug)]
pub(super) struct ListFeedItems(ToolDefinition);

impl Default for ListFeedItems {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: format!(
                "Find items of the user's feed, newest first: id, title and the beginning of each. {} reads one in full.",
                read_feed_item::NAME
            ),
            input_schema: listing::schema(MAX_ITEMS).into(),
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
        Ok(Plan::record(List(listing)))
    }
}

#[derive(Debug)]
struct List(ListQuery<FeedItemId>);

impl Record for List {
    fn apply<'t>(&'t self, tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(listing::documents(tx, KnowledgeKind::FeedItem, &self.0, read_feed_item::NAME))
    }
}
