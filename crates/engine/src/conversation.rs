//! A session's entries as text: for the model that summarises them, and for the search.

use std::collections::VecDeque;

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::session::SearchText;
use houston_llm::tokens;

use houston_domain::frame::escape;

/// Characters of a token, for the part that is kept: few, so that it is rather too short.
const CHARS_PER_TOKEN: u64 = 3;

/// What is known of a session once its entries were read, one after the other. Bounded, however many there are.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// What the user and the agent said to each other.
    pub(crate) messages: i32,
    /// Of all entries, about.
    pub(crate) tokens: i64,
    searched: SearchText,
    /// Characters of each tool input and result that the text keeps.
    tool_chars: usize,
    /// Characters that the text may have.
    room: usize,
    /// The first lines and the last ones, each up to its share of the room.
    head: String,
    tail: VecDeque<String>,
    tail_chars: usize,
    /// Whether something between them is missing.
    gap: bool,
}

impl Conversation {
    pub(crate) fn new(most_tokens: u64, tool_chars: usize) -> Self {
        let room = usize::try_from(most_tokens.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
        Self { room, tool_chars, ..Self::default() }
    }

    /// The next entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let counted = tokens::of_entries(std::slice::from_ref(entry));
        self.tokens = self.tokens.saturating_add(i64::try_from(counted).unwrap_or(i64::MAX));
        self.searched.add(entry);
        let calls = entry.tool_uses().next().is_some();
        for block in &entry.content {
            match block {
                Block::Text { text, .. } => {
                    let who = if entry.role == Role::User { "User" } else { "Agent" };
                    // Beside a call it is the agent's own thinking.
                    self.messages += i32::from(entry.role == Role::User || !calls);
                    self.say(who, text);
                }
                Block::ToolUse { name, input, .. } if name == SEND_MESSAGE => {
                    self.messages += 1;
                    self.say("Agent", input["content"].as_str().unwrap_or_default());
                }
                Block::ToolUse { name, input, .. } => {
                    self.work(&format!("Agent called {name}"), &input.to_string())
                }
                Block::ToolResult { content, .. } => self.work("It answered", content),
                Block::Thinking { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    fn say(&mut self, who: &str, text: &str) {
        self.keep(format!("{who}: {}\n", escape(text.trim())));
    }

    fn work(&mut self, what: &str, text: &str) {
        self.keep(format!("({what}: {})\n", escape(beginning(text, self.tool_chars))));
    }

    /// Keeps a line: a third of the room is for the first ones, the rest for the last.
    fn keep(&mut self, line: String) {
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
            && let Some(gone) = self.tail.pop_front()
        {
            self.tail_chars -= gone.len();
            // How it began is told in any case.
            if self.head.is_empty() {
                self.head = format!("{}…\n", beginning(gone.trim_end(), head.saturating_sub(4) / 4));
            }
            self.gap = true;
        }
    }

    /// What a search looks at.
    pub(crate) fn searched(&self) -> &str {
        self.searched.text()
    }

    /// What the model is asked to summarise.
    pub(crate) fn asked(&self) -> String {
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
    fn what_was_said_is_counted_and_what_was_only_thought_is_not() {
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
        let asked = conversation.asked();
        assert!(asked.contains("User: Where to?\n") && asked.contains("Agent: To Kyoto.\n"), "{asked}");
    }

    proptest! {
        /// However long it is: beginning and end are there, and it is no longer than there is room for.
        #[test]
        fn a_long_conversation_keeps_its_beginning_and_its_end(
            texts in proptest::collection::vec("[a-zä ]{1,80}", 1..200), most in 100..1000u64
        ) {
            let mut conversation = Conversation::new(most, 300);
            for (nth, text) in texts.iter().enumerate() {
                conversation.add(&Entry::user(vec![Block::text(format!("{nth} {text}"))]));
            }
            let asked = conversation.asked();
            let last = format!("{} {}", texts.len() - 1, texts[texts.len() - 1]);
            prop_assert!(asked.contains("User: 0"), "{asked}");
            prop_assert!(asked.contains(last.trim()), "{asked}");
            prop_assert!(asked.len() <= usize::try_from(most * CHARS_PER_TOKEN).unwrap() + 100);
            prop_assert_eq!(conversation.messages, i32::try_from(texts.len()).unwrap());
        }
    }
}
