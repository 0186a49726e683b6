//! A model call, as a script reads it.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// The wire of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI's chat completions.
    OpenAiChat,
    /// Anthropic's messages.
    Anthropic,
}

/// One request to the model. Its body is parsed at the first access.
#[derive(Debug)]
pub struct Call {
    /// Number of the call on this server, from 0.
    pub number: usize,
    /// The unparsed body.
    pub body: Bytes,
    pub(crate) json: OnceLock<Value>,
}

/// A tool result in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Id of the tool call.
    pub id: String,
    /// Text of the result.
    pub content: String,
}

impl Call {
    /// The body; null if it is not JSON.
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| serde_json::from_slice(&self.body).unwrap_or_default())
    }

    /// The requested model; empty if missing.
    pub fn model(&self) -> &str {
        self.json()["model"].as_str().unwrap_or_default()
    }

    /// The texts of the user's messages, oldest first, without tool results and system context.
    pub fn user_texts(&self) -> Vec<String> {
        self.messages()
            .iter()
            .filter(|message| message["role"] == "user")
            .flat_map(|message| texts(&message["content"]))
            .map(|text| without_system_context(&text).to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// The text of the user's last message; empty without one.
    pub fn last_user_text(&self) -> String {
        self.user_texts().pop().unwrap_or_default()
    }

    /// The system prompt, followed by the system context.
    pub fn system(&self) -> String {
        // Anthropic's wire has a field for it, OpenAI's a message.
        let mut system = texts(&self.json()["system"]);
        let messages = self.messages().iter().filter(|message| message["role"] == "system");
        system.extend(messages.flat_map(|message| texts(&message["content"])));
        system.extend(self.system_context());
        system.join("\n")
    }

    /// The system context, which Houston sends after the history: the element `<system_context>` at the end of the last
    /// message.
    pub fn system_context(&self) -> Option<String> {
        let last = self.messages().last()?;
        let text = texts(&last["content"]).pop()?;
        Some(text[system_context_start(&text)..].to_owned()).filter(|context| !context.is_empty())
    }

    /// The names of the offered tools.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.json()["tools"].as_array().into_iter().flatten();
        let names = tools.filter_map(|tool| tool["function"]["name"].as_str().or(tool["name"].as_str()));
        names.map(str::to_owned).collect()
    }

    /// The tool results after the model's last message, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let messages = self.messages();
        let after =
            messages.iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
        messages[after..].iter().flat_map(results).collect()
    }

    /// Whether there are tool results after the model's last message.
    pub fn has_tool_results(&self) -> bool {
        !self.tool_results().is_empty()
    }

    fn messages(&self) -> &[Value] {
        self.json()["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The byte position at which the system context begins; the length of the text without one.
fn system_context_start(text: &str) -> usize {
    let ends = text.trim_end().ends_with("</system_context>");
    // The start tag has an attribute, the mark of Houston's frames.
    text.rfind("<system_context").filter(|_| ends).unwrap_or(text.len())
}

/// `text` without a system context at its end.
pub fn without_system_context(text: &str) -> &str {
    let until = system_context_start(text);
    if until == text.len() { text } else { text[..until].trim_end_matches('\n') }
}

/// The texts of a content field: a string, or the text blocks of a list.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            let text = |block: &Value| block["text"].as_str().map(str::to_owned);
            blocks.iter().filter(|block| block["type"] == "text").filter_map(text).collect()
        }
        _ => Vec::new(),
    }
}

/// The tool results in a message: an OpenAI message is one result, an Anthropic message has them among its blocks.
fn results(message: &Value) -> Vec<ToolResult> {
    let result = |id: &Value, content: &Value| ToolResult {
        id: id.as_str().unwrap_or_default().to_owned(),
        content: without_system_context(&texts(content).join("\n")).to_owned(),
    };
    if message["role"] == "tool" {
        return vec![result(&message["tool_call_id"], &message["content"])];
    }
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let blocks = blocks.iter().filter(|block| block["type"] == "tool_result");
    blocks.map(|block| result(&block["tool_use_id"], &block["content"])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(body: &Value) -> Call {
        Call { number: 0, body: Bytes::from(body.to_string()), json: OnceLock::new() }
    }

    #[test]
    fn both_wires_read_alike() {
        let openai = json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a"}]},
            {"role": "tool", "tool_call_id": "a", "content": "12"},
            {"role": "user", "content": [{"type": "text", "text": "two"}]},
        ], "tools": [{"type": "function", "function": {"name": "clock"}}]});
        let anthropic = json!({"model": "m", "system": [{"type": "text", "text": "be brief"}], "messages": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "12"}, {"type": "text", "text": "two"},
            ]},
        ], "tools": [{"name": "clock"}]});
        for body in [openai, anthropic] {
            let call = call(&body);
            assert_eq!(call.model(), "m");
            assert_eq!(call.system(), "be brief");
            assert_eq!(call.user_texts(), ["one", "two"]);
            assert_eq!(call.last_user_text(), "two");
            assert_eq!(call.tools(), ["clock"]);
            assert_eq!(call.tool_results(), [ToolResult { id: "a".into(), content: "12".into() }]);
        }
        assert!(!call(&json!([])).has_tool_results());
    }

    #[test]
    fn system_context_is_not_a_user_text() {
        let context = "<system_context mark=\"0123456789abcdef\">\nnow\n</system_context>\n";
        let text = |text: &str| json!({"type": "text", "text": text});
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "12"});
        let anthropic = json!({"system": "be brief", "messages": [
            {"role": "user", "content": [text("one")]}, {"role": "user", "content": [result, text(context)]},
        ]});
        let openai = json!({"messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "one"},
            {"role": "tool", "tool_call_id": "a", "content": format!("12\n\n{context}")},
        ]});
        for body in [anthropic, openai] {
            let call = call(&body);
            assert_eq!(call.system_context().as_deref(), Some(context));
            assert_eq!(call.system(), format!("be brief\n{context}"));
            assert_eq!(call.user_texts(), ["one"]);
            assert_eq!(call.tool_results(), [ToolResult { id: "a".into(), content: "12".into() }]);
        }
    }
}
