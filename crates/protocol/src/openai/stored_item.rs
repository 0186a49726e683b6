//! Items that a client adds to a conversation: what of them is kept in the thread, what the agent reads, and how they are
//! returned.

use houston_domain::id::MessageId;
use houston_domain::message::{MAX_MESSAGE_BYTES, Source};
use houston_domain::setting::WrongSetting;
use serde_json::{Value, json};

use super::input::{ALLOWED_ROLES, text_of, unsupported, wrong};

/// The field of a message's metadata by which it is such an item.
pub const FIELD: &str = "openai_item";

/// The roles of messages, and who wrote them for Houston.
const ROLES: [(&str, Source); 4] = [
    ("user", Source::User),
    ("assistant", Source::Agent),
    ("system", Source::System),
    ("developer", Source::System),
];

/// An item as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredItem {
    /// Who wrote the message.
    pub source: Source,
    /// The text of a message, or the JSON of any other item.
    pub content: String,
    /// The role of a message of which nothing but its text is kept.
    pub role: Option<&'static str>,
    /// What the agent reads of it; `None`: nothing.
    pub remembered: Option<String>,
}

impl StoredItem {
    /// Reads an item.
    ///
    /// # Errors
    /// [`WrongSetting`] when it is none, or too large.
    pub fn read(item: &Value) -> Result<Self, WrongSetting> {
        let Value::Object(fields) = item else { return wrong("", "must be an object") };
        let kind = match fields.get("type") {
            None | Some(Value::Null) => "message",
            Some(Value::String(kind)) if !kind.is_empty() => kind,
            Some(_) => return wrong("/type", "must be a text"),
        };
        let content = item.to_string();
        if content.len() > MAX_MESSAGE_BYTES {
            let bytes = content.len();
            return wrong("", format!("has {bytes} bytes as JSON; at most {MAX_MESSAGE_BYTES} are allowed"));
        }
        if kind != "message" {
            return Ok(Self { source: Source::System, remembered: told(kind, item), content, role: None });
        }
        let role = item["role"].as_str().unwrap_or_default();
        let Some((role, source)) = ROLES.into_iter().find(|(name, _)| *name == role) else {
            return unsupported("/role".to_owned(), role, ALLOWED_ROLES);
        };
        let text = text_of("/content", &item["content"])?;
        let said = |text: &str| match source {
            Source::User => format!("What I said before, as my client remembers it:\n\n{text}"),
            Source::Agent => format!("What you said before, as my client remembers it:\n\n{text}"),
            _ => text.to_owned(),
        };
        match text {
            Some(text) if !text.trim().is_empty() => {
                let remembered = Some(said(&text));
                Ok(Self { source, content: text, role: Some(role), remembered })
            }
            // It has images, or nothing.
            text => {
                let pictured = text.is_none().then(|| said("(an image)"));
                Ok(Self { source: Source::System, content, role: None, remembered: pictured })
            }
        }
    }

    /// The item of such a message; `None` if it is any other message. `metadata`: that of the message.
    pub fn write(id: MessageId, content: &str, metadata: &Value) -> Option<Value> {
        let Some(role) = metadata.get(FIELD)?.as_object()?.get("role").and_then(Value::as_str) else {
            let mut item: Value = serde_json::from_str(content).ok()?;
            let kind = item["type"].as_str().unwrap_or("message").to_owned();
            let prefix = if kind == "message" { "msg" } else { "item" };
            item["id"] = format!("{prefix}_{}", id.0.simple()).into();
            item["type"] = kind.into();
            return Some(item);
        };
        Some(Self::message(id, role, content))
    }

    /// A message of the thread as an item.
    pub fn message(id: MessageId, role: &str, text: &str) -> Value {
        let part = if role == "assistant" {
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        } else {
            json!({"type": "input_text", "text": text})
        };
        json!({"type": "message", "id": id, "status": "completed", "role": role, "content": [part]})
    }
}

/// What the agent reads of an item that is no message.
fn told(kind: &str, item: &Value) -> Option<String> {
    let text = |name: &str| match &item[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match kind {
        "function_call" | "mcp_call" => {
            let output = text("output");
            let returned = if output.is_empty() { String::new() } else { format!(" It returned: {output}") };
            Some(format!(
                "As my client remembers it, you called `{}` with {}.{returned}",
                text("name"),
                text("arguments")
            ))
        }
        "function_call_output" => {
            Some(format!("As my client remembers it, the call returned: {}", text("output")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(item: &Value) -> (StoredItem, Value) {
        let stored = StoredItem::read(item).unwrap();
        let mut field = json!({"position": 7});
        if let Some(role) = stored.role {
            field["role"] = role.into();
        }
        let id = MessageId(uuid::Uuid::from_u128(0xab));
        let written = StoredItem::write(id, &stored.content, &json!({FIELD: field})).unwrap();
        (stored, written)
    }

    #[test]
    fn messages_are_kept_as_texts_of_the_thread() {
        for (role, source, part) in [
            ("user", Source::User, "input_text"),
            ("assistant", Source::Agent, "output_text"),
            ("developer", Source::System, "input_text"),
        ] {
            for content in
                [json!("hello"), json!([{"type": part, "text": "hel"}, {"type": part, "text": "lo"}])]
            {
                let (stored, written) = round(&json!({"role": role, "content": content}));
                assert_eq!((stored.source, stored.content.as_str()), (source, "hello"));
                assert!(stored.remembered.unwrap().ends_with("hello"));
                assert_eq!((&written["role"], &written["type"]), (&json!(role), &json!("message")));
                assert_eq!(written["content"][0]["type"], part);
                assert_eq!(written["content"][0]["text"], "hello");
                assert!(written["id"].as_str().unwrap().starts_with("msg_"));
            }
        }
    }

    #[test]
    fn other_items_are_kept_whole_under_an_id_of_their_own() {
        let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"});
        let image = json!({"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]});
        let nothing = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        for (item, is_told) in [(call, true), (image, true), (nothing, false)] {
            let (stored, written) = round(&item);
            assert_eq!((stored.source, stored.remembered.is_some()), (Source::System, is_told), "{item}");
            for (name, value) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "id") {
                assert_eq!(&written[name], value);
            }
            assert!(written["id"].as_str().unwrap().ends_with("000000ab"));
        }
        let plain = json!({"type": "note"});
        assert_eq!(StoredItem::write(MessageId(uuid::Uuid::nil()), "hello", &plain), None);
    }

    #[test]
    fn what_is_no_item_is_named() {
        let long = "x".repeat(MAX_MESSAGE_BYTES);
        for (item, pointer) in [
            (json!("hello"), ""),
            (json!({"type": 7}), "/type"),
            (json!({"role": "king", "content": "x"}), "/role"),
            (json!({"role": "user", "content": 7}), "/content"),
            (json!({"role": "user", "content": [{"type": "input_text"}]}), "/content/0/text"),
            (json!({"role": "user", "content": long}), ""),
        ] {
            assert_eq!(StoredItem::read(&item).unwrap_err().pointer, pointer);
        }
    }
}
