//! A thread as `MESSAGES_SNAPSHOT` shows it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{EntityId, Metadata};
use crate::schema;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    User,
    /// The agent.
    Assistant,
    /// Houston, to the agent.
    System,
    /// A tool, returning.
    Tool,
    /// The model, thinking.
    Reasoning,
    /// A message that changes in place.
    Activity,
}

/// One message of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMessage {
    #[schema(value_type = schema::EntityId)]
    pub id: EntityId,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<SnapshotContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_type: Option<String>,
    /// The call of a tool: an assistant's message has one at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<[ToolCall; 1]>,
    /// The call that a tool's message answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EntityId>)]
    pub tool_call_id: Option<EntityId>,
    /// `{"houston": {"rolled_back": true}}` of what was rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata<'static>>,
}

/// What a message of a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SnapshotContent {
    /// Markdown.
    Text(String),
    /// The content of an activity.
    Fields(Value),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    #[schema(value_type = schema::EntityId)]
    pub id: EntityId,
    #[serde(rename = "type")]
    pub kind: ToolCallType,
    pub function: ToolFunction,
    pub metadata: Metadata<'static>,
}

/// AG-UI knows functions alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallType {
    Function,
}

/// The tool that is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolFunction {
    /// Its name, as `create_note`.
    pub name: String,
    /// A JSON object as text.
    pub arguments: String,
}

impl SnapshotMessage {
    /// A message that holds text.
    #[must_use]
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

    /// The text; `None` of calls and activities.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Some(SnapshotContent::Text(text)) => Some(text),
            Some(SnapshotContent::Fields(_)) | None => None,
        }
    }
}
