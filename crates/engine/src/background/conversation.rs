//! The entries of a session as text: for the model that summarises them, and for search.

use std::collections::VecDeque;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::inner_call::inner_call;
use houston_domain::session::SearchText;
use houston_llm::tokens;
use houston_tools::untrusted::is_marked;

use houston_domain::frame::escape;

/// Characters per token, for the length of the text. A low estimate, so that the text is rather too short.
const CHARS_PER_TOKEN: u64 = 3;

/// Collects the entries of a session, one after the other. Its size is bounded, however many entries there are.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Number of messages of the user and the agent.
    pub(crate) messages: i32,
    /// Estimated tokens of all entries.
    pub(crate) tokens: i64,
    /// Whether what strangers wrote was read.
    pub(crate) untrusted: bool,
    searched: SearchText,
    /// Characters of each tool input and result that the text keeps.
    tool_chars: usize,
    /// Characters that the text may have.
    room: usize,
    /// The first lines and the last ones, each up to its share of `room`.
    head: String,
    tail: VecDeque<String>,
    tail_chars: usize,
    /// Whether lines between them were dropped.
    gap: bool,
}

impl Conversation {
    pub(crate) fn new(most_tokens: u64, tool_chars: usize) -> Self {
        let room = usize::try_from(most_tokens.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
        Self { room, tool_chars, ..Self::default() }
    }

    /// Adds the next entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let counted = tokens::of_entries(std::slice::from_ref(entry));
        self.tokens = self.tokens.saturating_add(i64::try_from(counted).unwrap_or(i64::MAX));
        self.searched.add(entry);
        let calls = entry.tool_uses().next().is_some();
        for block in &entry.content {
            self.untrusted |= block.read().is_some_and(is_marked);
            match block {
                Block::Text { text, .. } => {
                    let who = if entry.role == Role::User { "User" } else { "Agent" };
                    // Text next to a tool call is the agent's own thinking.
                    self.messages += i32::from(entry.role == Role::User || !calls);
                    self.add_line(who, text);
                }
                Block::ToolUse { name, input, .. } => match inner_call(name, input) {
                    (SEND_MESSAGE, input) => {
                        self.messages += 1;
                        self.add_line("Agent", input["content"].as_str().unwrap_or_default());
                    }
                    (name, input) => self.add_tool_line(&format!("Agent called {name}"), &input.to_string()),
                },
                Block::ToolResult { content, .. } => self.add_tool_line("It answered", content),
                Block::Thinking { .. } | Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => {}
            }
        }
    }

    fn add_line(&mut self, who: &str, text: &str) {
        self.push_line(format!("{who}: {}\n", escape(text.trim())));
    }

    fn add_tool_line(&mut self, what: &str, text: &str) {
        self.push_line(format!("({what}: {})\n", escape(beginning(text, self.tool_chars))));
    }

    /// Adds a line: a third of `room` is for the first lines, the rest for the last ones.
    fn push_line(&mut self, line: String) {
        let (head, tail) = (self.room / 3, self.room - self.room / 3);
        if self.tail.is_empty() && self.head.len() + line.len() <= head {
            self.head.push_str(&line);
            return;
        }
        let line = if line.len() > tail {
            format!("{}…\n", beginning(&line, tail.saturating_sub(4) / 4))
        } else {
            line
        };
        self.tail_chars += line.len();
        self.tail.push_back(line);
        while self.tail_chars > tail
            && let Some(dropped) = self.tail.pop_front()
        {
            self.tail_chars -= dropped.len();
            // The beginning is always included.
            if self.head.is_empty() {
                self.head = format!("{}…\n", beginning(dropped.trim_end(), head.saturating_sub(4) / 4));
            }
            self.gap = true;
        }
    }

    /// The searchable text.
    pub(crate) fn searched(&self) -> &str {
        self.searched.text()
    }

    /// The text for the model that summarises.
    pub(crate) fn text(&self) -> String {
        let gap = if self.gap { "[…]\n" } else { "" };
        let tail: String = self.tail.iter().map(String::as_str).collect();
        format!("<conversation>\n{}{gap}{tail}</conversation>\nWrite the summary.", self.head)
    }
}

/// The first `most` characters.
fn beginning(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: serde_json::Value) -> Block {
        Block::ToolUse { id: "c".into(), name: name.into(), input, raw: None }
    }

    #[test]
    fn messages_are_counted_and_thinking_is_not() {
        let mut conversation = Conversation::new(1000, 300);
        for entry in [
            Entry::user(vec![Block::text("Where to?")]),
            Entry::assistant(vec![Block::text("I look it up."), call("fetch", json!({"url": "x"}))]),
            Entry::user(vec![Block::ToolResult {
                tool_use_id: "c".into(),
                content: "Kyoto".into(),
                is_error: false,
            }]),
            Entry::assistant(vec![call(SEND_MESSAGE, json!({"content": "To Kyoto."}))]),
        ] {
            conversation.add(&entry);
        }
        assert_eq!(conversation.messages, 2);
        assert!(conversation.tokens > 10, "{}", conversation.tokens);
        for said in ["Where to?", "Kyoto", "To Kyoto."] {
            assert!(conversation.searched().contains(said), "{said}");
        }
        let asked = conversation.text();
        assert!(asked.contains("User: Where to?\n") && asked.contains("Agent: To Kyoto.\n"), "{asked}");
    }

    proptest! {
        /// Whatever the length: beginning and end are included, and the text fits into its limit.
        #[test]
        fn long_conversation_keeps_its_beginning_and_end(
            texts in proptest::collection::vec("[a-zä ]{1,80}", 1..200), most in 100..1000u64
        ) {
            let mut conversation = Conversation::new(most, 300);
            for (nth, text) in texts.iter().enumerate() {
                conversation.add(&Entry::user(vec![Block::text(format!("{nth} {text}"))]));
            }
            let asked = conversation.text();
            let last = format!("{} {}", texts.len() - 1, texts[texts.len() - 1]);
            prop_assert!(asked.contains("User: 0"), "{asked}");
            prop_assert!(asked.contains(last.trim()), "{asked}");
            prop_assert!(asked.len() <= usize::try_from(most * CHARS_PER_TOKEN).unwrap() + 100);
            prop_assert_eq!(conversation.messages, i32::try_from(texts.len()).unwrap());
        }
    }
}
