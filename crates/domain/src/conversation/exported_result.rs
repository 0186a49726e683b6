//! Large tool results of a conversation document, and the texts that refer to them.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Conversation;
use crate::history::Block;
use crate::id::ResultId;

/// A large result of a tool: the history has its beginning and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedResult {
    /// The id that texts refer to. It does not change on import, because the texts do not either.
    pub id: ResultId,
    /// The id of the tool call it answers.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The complete result.
    pub content: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

impl Conversation {
    /// The ids of the large results that history, summaries and compressions refer to.
    #[must_use]
    pub fn referenced_results(&self) -> BTreeSet<ResultId> {
        let mut named = BTreeSet::new();
        for block in self.history.iter().flat_map(|entry| &entry.content) {
            match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => collect_ids(text, &mut named),
                Block::ToolUse { input, .. } => collect_ids(&input.to_string(), &mut named),
                Block::ToolResult { content, .. } => collect_ids(content, &mut named),
                Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => {}
            }
        }
        self.sessions.iter().for_each(|session| collect_ids(&session.summary, &mut named));
        self.compressions.iter().for_each(|compression| collect_ids(&compression.summary, &mut named));
        named
    }
}

/// Adds the result ids that occur in `text` to `named`.
fn collect_ids(text: &str, named: &mut BTreeSet<ResultId>) {
    let length = ResultId::PREFIX.len() + "_".len() + 32;
    let matches = text.match_indices(ResultId::PREFIX);
    named.extend(matches.filter_map(|(at, _)| text.get(at..at + length)?.parse::<ResultId>().ok()));
}
