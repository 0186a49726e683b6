//! Long results in a document, and where its texts name them.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Conversation;
use crate::history::Block;
use crate::id::ResultId;

/// A long result of a tool: the history has its beginning, and names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptResult {
    /// As it is named. It stays the same: what models were told does not change.
    pub id: ResultId,
    /// The call it answers.
    pub call_id: String,
    /// Its tool.
    pub tool: String,
    /// All of it.
    pub content: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

impl Conversation {
    /// The long results that its history and its summaries name: what may be read on in.
    #[must_use]
    pub fn named_results(&self) -> BTreeSet<ResultId> {
        let mut named = BTreeSet::new();
        for block in self.history.iter().flat_map(|entry| &entry.content) {
            match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => take(text, &mut named),
                Block::ToolUse { input, .. } => take(&input.to_string(), &mut named),
                Block::ToolResult { content, .. } => take(content, &mut named),
                Block::Opaque { .. } => {}
            }
        }
        self.sessions.iter().for_each(|session| take(&session.summary, &mut named));
        self.compressions.iter().for_each(|compression| take(&compression.summary, &mut named));
        named
    }
}

/// The ids in a text.
fn take(text: &str, named: &mut BTreeSet<ResultId>) {
    let length = ResultId::PREFIX.len() + "_".len() + 32;
    let places = text.match_indices(ResultId::PREFIX);
    named.extend(places.filter_map(|(at, _)| text.get(at..at + length)?.parse::<ResultId>().ok()));
}
