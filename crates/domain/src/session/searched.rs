//! What a search looks at of a session, besides its summary: the same whoever closes or imports it.

use crate::agent::SEND_MESSAGE;
use crate::history::{Block, Entry};

/// Characters of the whole: a hundred pages. A tsvector has at most a megabyte.
const MOST_CHARS: usize = 200_000;
/// Characters of what a tool was given, or answered: a web page is not what was said.
const TOOL_CHARS: usize = 2_000;

/// What a search looks at of a session's entries, taken one after the other. Bounded, however many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Searched(String);

impl Searched {
    /// The next entry.
    pub fn add(&mut self, entry: &Entry) {
        for block in &entry.content {
            match block {
                Block::Text { text, .. } => self.take(text, usize::MAX),
                Block::ToolUse { name, input, .. } if name == SEND_MESSAGE => {
                    self.take(input["content"].as_str().unwrap_or_default(), usize::MAX);
                }
                Block::ToolUse { input, .. } => self.take(&input.to_string(), TOOL_CHARS),
                Block::ToolResult { content, .. } => self.take(content, TOOL_CHARS),
                Block::Thinking { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    /// All of it, a text a line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    fn take(&mut self, text: &str, most: usize) {
        let left = MOST_CHARS.saturating_sub(self.0.len()).min(most);
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
    fn what_was_said_is_searched_and_of_tools_the_beginning_and_never_more_than_there_is_room_for() {
        let mut searched = Searched::default();
        let call = |name: &str, input| Block::ToolUse { id: "c".into(), name: name.into(), input, raw: None };
        searched.add(&Entry::assistant(vec![
            Block::Thinking { text: "hm".into(), raw: None },
            call("fetch", json!({"url": "kyoto.example"})),
            call(SEND_MESSAGE, json!({"content": "To Kyoto."})),
        ]));
        let content = format!("{}end", "ä".repeat(TOOL_CHARS));
        searched.add(&Entry::user(vec![Block::ToolResult {
            tool_use_id: "c".into(),
            content,
            is_error: false,
        }]));
        let text = searched.text();
        assert!(text.starts_with("{\"url\":\"kyoto.example\"}\nTo Kyoto.\nää"), "{text}");
        assert!(!text.contains("end") && !text.contains("hm"));
        for _ in 0..3 {
            searched.add(&Entry::user(vec![Block::text("x".repeat(MOST_CHARS))]));
        }
        assert!(searched.text().len() <= MOST_CHARS + TOOL_CHARS);
    }
}
