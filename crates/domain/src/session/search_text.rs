//! The text of a session that searches look at, besides its summary: the same for closed and imported sessions.

use crate::agent::SEND_MESSAGE;
use crate::history::{Block, Entry};
use crate::inner_call::inner_call;

/// Maximum length of the whole text, in characters: a hundred pages. A tsvector has at most a megabyte.
const MAX_CHARS: usize = 200_000;
/// Maximum length of the input or result of a tool, in characters: a web page is not what was said.
const TOOL_CHARS: usize = 2_000;

/// The searchable text of a session, built from its entries in order. Its length is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchText(String);

impl SearchText {
    /// Adds the next entry.
    pub fn add(&mut self, entry: &Entry) {
        for block in &entry.content {
            match block {
                Block::Text { text, .. } => self.push(text, usize::MAX),
                Block::ToolUse { name, input, .. } => match inner_call(name, input) {
                    (SEND_MESSAGE, input) => {
                        self.push(input["content"].as_str().unwrap_or_default(), usize::MAX);
                    }
                    (_, input) => self.push(&input.to_string(), TOOL_CHARS),
                },
                Block::ToolResult { content, .. } => self.push(content, TOOL_CHARS),
                Block::Thinking { .. } | Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => {}
            }
        }
    }

    /// The whole text: one line for each text of an entry.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    fn push(&mut self, text: &str, max_chars: usize) {
        let left = MAX_CHARS.saturating_sub(self.0.len()).min(max_chars);
        if left > 0 {
            let end = text.char_indices().nth(left).map_or(text.len(), |(end, _)| end);
            self.0.push_str(&text[..end]);
            self.0.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contains_messages_and_the_beginning_of_tool_texts() {
        let mut search_text = SearchText::default();
        let call = |name: &str, input| Block::ToolUse { id: "c".into(), name: name.into(), input, raw: None };
        search_text.add(&Entry::assistant(vec![
            Block::Thinking { text: "hm".into(), raw: None },
            call("fetch", json!({"url": "kyoto.example"})),
            call(SEND_MESSAGE, json!({"content": "To Kyoto."})),
        ]));
        let content = format!("{}end", "ä".repeat(TOOL_CHARS));
        search_text.add(&Entry::user(vec![Block::ToolResult {
            tool_use_id: "c".into(),
            content,
            is_error: false,
        }]));
        let text = search_text.text();
        assert!(text.starts_with("{\"url\":\"kyoto.example\"}\nTo Kyoto.\nää"), "{text}");
        assert!(!text.contains("end") && !text.contains("hm"));
        for _ in 0..3 {
            search_text.add(&Entry::user(vec![Block::text("x".repeat(MAX_CHARS))]));
        }
        assert!(search_text.text().len() <= MAX_CHARS + TOOL_CHARS);
    }
}
