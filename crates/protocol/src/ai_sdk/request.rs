//! What the transport of a chat sends.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agui::{InputContext, InputTool};
#[cfg(feature = "openapi")]
use crate::schema;

/// The request of `DefaultChatTransport`. Houston stores the chat itself: of `messages` only the last one is read, a new one of
/// the user or the assistant's with answers to what the run waits for.
///
/// ```json
/// {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Delete my notes"}]}],
///  "trigger": "submit-message"}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChatRequest {
    /// The client's id of the chat, at most 200 characters, or Houston's id of the conversation, as in `goal_…`.
    pub id: String,
    #[serde(default)]
    pub messages: Vec<UiMessage>,
    #[serde(default)]
    pub trigger: Trigger,
    /// The message that is submitted or answered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Tools that the client carries out, which it adds to the body: a list, or an object with the names as keys.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson))]
    pub tools: Value,
    /// Whose chat it is, if neither the key nor the header `Houston-User` names a user: an id, or an external id. A backend that
    /// passes requests on adds it to the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What the client shows its user, which it adds to the body. The model reads it as untrusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<InputContext>,
}

/// Why the client asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// There is a new message, or there are answers.
    #[default]
    SubmitMessage,
    /// The last message of the user is to be answered again.
    RegenerateMessage,
}

/// A message as the client has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UiMessage {
    #[serde(default)]
    pub id: String,
    /// `user` or `assistant`.
    pub role: String,
    /// Texts, images (`file`), tool calls (`tool-…`, `dynamic-tool`), …
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::AnyJson>))]
    pub parts: Vec<Value>,
}

impl ChatRequest {
    /// The tools of the client; `None` if they are neither a list nor an object of tools.
    #[must_use]
    pub fn client_tools(&self) -> Option<Vec<InputTool>> {
        match &self.tools {
            Value::Null => Some(Vec::new()),
            Value::Array(tools) => tools.iter().map(|tool| input_tool(None, tool)).collect(),
            Value::Object(tools) => tools.iter().map(|(name, tool)| input_tool(Some(name), tool)).collect(),
            _ => None,
        }
    }
}

/// A tool; its schema is called `parameters` or `inputSchema`.
fn input_tool(name: Option<&str>, tool: &Value) -> Option<InputTool> {
    let fields = tool.as_object()?;
    let schema = ["parameters", "inputSchema"].into_iter().find_map(|field| fields.get(field));
    Some(InputTool {
        name: name.or_else(|| fields.get("name")?.as_str())?.to_owned(),
        description: fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        parameters: schema.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new())),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_a_list_or_an_object() {
        let names = |tools: Value| {
            let request = ChatRequest { tools, ..ChatRequest::default() };
            request
                .client_tools()
                .map(|tools| tools.into_iter().map(|tool| (tool.name, tool.parameters)).collect())
        };
        let schema = json!({"type": "object"});
        let map: Vec<(String, Value)> = vec![("show_map".into(), schema.clone())];
        assert_eq!(names(json!([{"name": "show_map", "inputSchema": schema}])), Some(map.clone()));
        assert_eq!(names(json!({"show_map": {"parameters": schema}})), Some(map));
        assert_eq!(names(Value::Null), Some(Vec::new()));
        assert_eq!(names(json!([{"description": "no name"}])), None);
        assert_eq!(names(json!("show_map")), None);
    }
}
