//! [`Contents`]: what models and tools write and read, as attributes, if the operator asks for them.

use houston_domain::history::Block;
use houston_domain::model::ModelAnswer;
use houston_domain::redaction::without_keys;
use opentelemetry::KeyValue;
use serde_json::{Value, json};

use crate::span::attribute;

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
    #[must_use]
    pub fn up_to(most: usize) -> Self {
        Self { most }
    }

    fn attribute(self, key: &'static str, make: impl FnOnce() -> String) -> Option<KeyValue> {
        (self.most > 0).then(|| attribute(key, cut(without_keys(&make()), self.most)))
    }

    /// The text and the tool calls of an answer, which ended for this reason.
    pub(crate) fn of_answer(self, answer: &ModelAnswer, reason: &str) -> Option<KeyValue> {
        self.attribute("gen_ai.output.messages", || {
            let part = |block: &Block| match block {
                Block::Text { text, .. } => Some(json!({"type": "text", "content": text})),
                Block::ToolUse { id, name, input, .. } => {
                    Some(json!({"type": "tool_call", "id": id, "name": name, "arguments": input}))
                }
                _ => None,
            };
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

/// The beginning of a text, with a mark if it was longer.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_opt_in_redacted_and_cut() {
        assert_eq!(Contents::NONE.of_result("hello"), None);
        let key = format!("sk-ant-api03-{}", "a1B2".repeat(20));
        let text = Contents::up_to(40).of_result(&format!("{key} {}", "é".repeat(40))).unwrap();
        let text = text.value.as_str().into_owned();
        assert!(!text.contains("a1B2a1B2") && text.ends_with('…') && text.len() <= 43, "{text}");
    }
}
