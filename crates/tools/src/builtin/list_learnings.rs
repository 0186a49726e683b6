//! `list_learnings`: lists learnings, also those that the prompt does not contain.

use houston_domain::capability::Capability;
use houston_domain::id::LearningId;
use houston_domain::knowledge::{KnowledgeKind, ListQuery};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_store::record::RecordTx;
use serde_json::Value;

use crate::listing;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

pub const NAME: &str = "list_learnings";
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
            input_schema: listing::schema(MAX_ITEMS).into(),
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
        Ok(Plan::record(List(listing)))
    }
}

#[derive(Debug)]
struct List(ListQuery<LearningId>);

impl Record for List {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            let found = tx.excerpts(KnowledgeKind::Learning, &self.0, i32::MAX).await?;
            let line = |found| listing::line::<LearningId>(found, "", i32::MAX);
            Ok(listing::page(found.into_iter().map(line).collect(), &self.0, KnowledgeKind::Learning))
        })
    }
}
