//! The thread in a `MESSAGES_SNAPSHOT`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EntityId, Metadata};

/// The author of a message, as in `"assistant"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// Houston, informing the agent.
    System,
    /// A tool result.
    Tool,
    /// The model's reasoning.
    Reasoning,
    /// A message that changes in place.
    Activity,
}

/// One message of a snapshot.
///
/// ```json
/// {"id": "msg_0190…", "role": "assistant", "toolCalls": [{"id": "msg_0190…", "type": "function",
///  "function": {"name": "create_note", "arguments": "{}"}, "metadata": {"houston": {"call_id": "call_1"}}}]}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMessage {
    pub id: EntityId,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<SnapshotContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_type: Option<String>,
    /// The tool call; a message of the assistant has at most one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<[ToolCall; 1]>,
    /// For a tool result: the call it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<EntityId>,
    /// `{"houston": {"rolled_back": true}}` if its run was rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata<'static>>,
}

/// Metadata of a snapshot: `{"@ag-ui/client": {"authoritativeActivityTypes": ["houston.error"]}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotMetadata {
    #[serde(rename = "@ag-ui/client")]
    pub client: AuthoritativeActivities,
}

/// The types of activities of which a snapshot has all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuthoritativeActivities {
    pub authoritative_activity_types: Vec<String>,
}

impl SnapshotMetadata {
    /// A snapshot that has all errors, but no plans: their lists are never taken back.
    pub fn with_errors_only() -> Self {
        let authoritative_activity_types = vec![super::ERROR_ACTIVITY.to_owned()];
        Self { client: AuthoritativeActivities { authoritative_activity_types } }
    }
}

/// The content of a message: a string, or a JSON object for an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum SnapshotContent {
    /// Markdown.
    Text(String),
    /// The fields of an activity.
    Fields(Value),
}

/// A tool call.
///
/// ```json
/// {"id": "msg_0190…", "type": "function", "function": {"name": "create_note", "arguments": "{\"title\":\"Hotels\"}"},
///  "metadata": {"houston": {"call_id": "call_1"}}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCall {
    pub id: EntityId,
    #[serde(rename = "type")]
    pub kind: ToolCallType,
    pub function: ToolFunction,
    pub metadata: Metadata<'static>,
}

/// The type of a tool call: AG-UI has only `"function"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolCallType {
    Function,
}

/// The called tool: `{"name": "create_note", "arguments": "{\"title\":\"Hotels\"}"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolFunction {
    /// The name of the tool.
    pub name: String,
    /// The arguments: a JSON object as text.
    pub arguments: String,
}

impl SnapshotMessage {
    /// A message with text.
    pub fn text(id: EntityId, role: Role, content: String) -> Self {
        Self {
            id,
            role,
            content: Some(SnapshotContent::Text(content)),
            activity_type: None,
            tool_calls: None,
            tool_call_id: None,
            metadata: None,
        }
    }

    /// The text; `None` for tool calls and activities.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Some(SnapshotContent::Text(text)) => Some(text),
            Some(SnapshotContent::Fields(_)) | None => None,
        }
    }
}
