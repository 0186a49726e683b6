//! [`Contents`]: what models and tools write and read, as attributes, if the operator asks for them.

use houston_domain::frame::FrameMark;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::masks::without_keys;
use houston_domain::model::ModelAnswer;
use serde_json::{Value, json};

use crate::record::{KeyValue, attribute};

/// Whether spans have contents, and how much of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// Bytes of one attribute; 0: there are none.
    most: usize,
}

impl Contents {
    /// Spans without contents.
    pub const NONE: Self = Self { most: 0 };

    /// Spans with contents, each cut after so many bytes.
    pub fn up_to(most: usize) -> Self {
        Self { most }
    }

    fn attribute(self, key: &'static str, make: impl FnOnce() -> String) -> Option<KeyValue> {
        (self.most > 0).then(|| attribute(key, cut(without_keys(&make()), self.most)))
    }

    /// The system prompt, and the newest entries of the history for which there is room.
    pub(crate) fn of_request<'t>(
        self,
        system: impl Iterator<Item = &'t str>,
        history: &[Entry],
        mark: &FrameMark,
    ) -> Vec<KeyValue> {
        let unmarked = |text: String| match mark.digits() {
            "" => text,
            digits => text.replace(digits, "hidden"),
        };
        let instructions = self.attribute("gen_ai.system_instructions", || {
            unmarked(json!([{"type": "text", "content": system.collect::<String>()}]).to_string())
        });
        let messages = self.attribute("gen_ai.input.messages", || unmarked(self.newest(history)));
        instructions.into_iter().chain(messages).collect()
    }

    /// The newest entry, and those before it that fit.
    fn newest(self, history: &[Entry]) -> String {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for entry in history.iter().rev() {
            let message = message(entry);
            bytes += message.to_string().len();
            if bytes > self.most && !messages.is_empty() {
                break;
            }
            messages.push(message);
        }
        messages.reverse();
        Value::Array(messages).to_string()
    }

    /// The text and the tool calls of an answer, which ended for this reason.
    pub(crate) fn of_answer(self, answer: &ModelAnswer, reason: &str) -> Option<KeyValue> {
        self.attribute("gen_ai.output.messages", || {
            let parts: Vec<Value> = answer.content.iter().filter_map(part).collect();
            json!([{"role": "assistant", "parts": parts, "finish_reason": reason}]).to_string()
        })
    }

    pub(crate) fn of_arguments(self, input: &Value) -> Option<KeyValue> {
        self.attribute("gen_ai.tool.call.arguments", || input.to_string())
    }

    pub(crate) fn of_result(self, text: &str) -> Option<KeyValue> {
        self.attribute("gen_ai.tool.call.result", || text.to_owned())
    }
}

fn message(entry: &Entry) -> Value {
    let has_results = entry.content.iter().any(|block| matches!(block, Block::ToolResult { .. }));
    let role = match entry.role {
        Role::Assistant => "assistant",
        Role::User if has_results => "tool",
        Role::User => "user",
    };
    json!({"role": role, "parts": entry.content.iter().filter_map(part).collect::<Vec<_>>()})
}

fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => Some(json!({"type": "text", "content": text})),
        Block::ToolUse { id, name, input, .. } => {
            Some(json!({"type": "tool_call", "id": id, "name": name, "arguments": input}))
        }
        Block::ToolResult { tool_use_id, content, .. } => {
            Some(json!({"type": "tool_call_response", "id": tool_use_id, "response": content}))
        }
        _ => None,
    }
}

/// The beginning of a text, with a mark if it was longer.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(attribute: KeyValue) -> String {
        let Value::String(text) = attribute.value else { panic!("{attribute:?}") };
        text
    }

    #[test]
    fn newest_entries_are_sent_without_the_mark() {
        let history = ["old", "<note mark=\"12ab\"> new"].map(|text| Entry::user(vec![Block::text(text)]));
        let mark = FrameMark::new("12ab");
        let sent =
            |most: usize| Contents::up_to(most).of_request(["Be ", "kind."].into_iter(), &history, &mark);
        let texts = |most| sent(most).into_iter().map(text).collect::<Vec<_>>();
        assert_eq!(texts(0), [""; 0]);
        let all = texts(1_000);
        assert!(all[0].contains("Be kind.") && all[1].contains("old") && all[1].contains("new"), "{all:?}");
        assert!(!all[1].contains("12ab"), "{all:?}");
        let few = texts(90);
        assert!(!few[1].contains("old") && few[1].contains("new"), "{few:?}");
    }

    #[test]
    fn contents_are_opt_in_redacted_and_cut() {
        assert_eq!(Contents::NONE.of_result("hello"), None);
        let key = format!("sk-ant-api03-{}", "a1B2".repeat(20));
        let text = Contents::up_to(40).of_result(&format!("{key} {}", "é".repeat(40))).unwrap();
        let text = self::text(text);
        assert!(!text.contains("a1B2a1B2") && text.ends_with('…') && text.len() <= 43, "{text}");
    }
}
