//! `create_feed_item`: adds an item to the user's feed.

use houston_domain::capability::Capability;
use houston_domain::id::FeedItemId;
use houston_domain::knowledge::{KnowledgeKind, MAX_DOCUMENT_BYTES, MAX_TITLE_CHARS};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::record::{Record, RecordFuture, created};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "create_feed_item";

/// Creates a feed item. Written with the step: exactly once.
#[derive(Debug)]
pub(super) struct CreateFeedItem(ToolDefinition);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    title: String,
    content: String,
}

impl Default for CreateFeedItem {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Put something into the user's feed: news, results, a proposal. They find it there when they like; it sends \
                 no message."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "One line that says what it is about."},
                    "content": {"type": "string", "description": "The item, in Markdown."},
                },
                "required": ["title", "content"],
                "additionalProperties": false,
            }).into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for CreateFeedItem {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Feed)
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
            let done = tx.create_item(KnowledgeKind::FeedItem, Some(&self.title), &self.content).await;
            created(done, || format!("Created {}: {}", FeedItemId(tx.ids().row), self.title))
        })
    }
}
