//! A message as AG-UI's `MESSAGES_SNAPSHOT` shows it.

use houston_domain::id::MessageId;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::events::agui::EntityId;

/// One message of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotMessage {
    pub(crate) id: EntityId,
    pub(crate) role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) activity_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_calls: Option<ToolCalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call_id: Option<EntityId>,
    /// Of what was rolled back: `{"houston": {"rolled_back": true}}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<RolledBack>,
}

/// What a message of a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    /// Of an activity.
    Fields(Value),
}

impl SnapshotMessage {
    /// One that holds text; whose, is for the caller to say.
    pub(crate) fn said(content: String) -> Self {
        let id = EntityId::Message(MessageId(uuid::Uuid::nil()));
        Self {
            id,
            role: "assistant",
            content: Some(Content::Text(content)),
            activity_type: None,
            tool_calls: None,
            tool_call_id: None,
            metadata: None,
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        let calls = self.tool_calls.as_ref().map_or(0, |calls| calls.0.function.arguments.len() + 100);
        let content = match &self.content {
            Some(Content::Text(text)) => text.len(),
            Some(Content::Fields(fields)) => fields["text"].as_str().map_or(0, str::len) + 200,
            None => 0,
        };
        content + calls + 100
    }
}

/// What a snapshot says of a message that was rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct RolledBack {
    houston: Marked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Marked {
    rolled_back: bool,
}

impl RolledBack {
    /// The mark, if the message's own metadata has it.
    pub(crate) fn of(metadata: &Value) -> Option<Self> {
        let rolled_back = metadata["rolled_back"] == true;
        rolled_back.then_some(Self { houston: Marked { rolled_back } })
    }
}

/// The calls of an assistant's message: here always one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolCalls(SnapshotCall);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SnapshotCall {
    id: EntityId,
    #[serde(rename = "type")]
    kind: &'static str,
    function: SnapshotFunction,
    metadata: CallMetadata,
}

/// As [`Metadata`] of the event the call began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct CallMetadata {
    houston: CallName,
}

/// What the model calls the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct CallName {
    call_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SnapshotFunction {
    name: String,
    arguments: String,
}

impl ToolCalls {
    pub(crate) fn one(id: EntityId, call_id: String, name: String, arguments: String) -> Self {
        let metadata = CallMetadata { houston: CallName { call_id } };
        Self(SnapshotCall { id, kind: "function", function: SnapshotFunction { name, arguments }, metadata })
    }
}

impl Serialize for ToolCalls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq([&self.0])
    }
}
