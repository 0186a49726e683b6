//! Lists, models, conversations, and what is left of something that was deleted.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::item::ItemStatus;
use super::item::{OutputItem, Part, Role};

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct List<T> {
    /// `list`.
    pub object: &'static str,
    /// The items.
    pub data: Vec<T>,
    /// Id of the first item.
    pub first_id: Option<String>,
    /// Id of the last item; the next page begins after it.
    pub last_id: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

impl<T> List<T> {
    /// A page; `id` gets the id of an item.
    #[must_use]
    pub fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> String) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Self { object: "list", data, first_id, last_id, has_more }
    }
}

/// A model: a kind, or an agent of the tenant.
///
/// ```json
/// {"id": "agent/travel", "object": "model", "created": 1795338000, "owned_by": "houston"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// The name of the kind, or `agent/` and the name of the agent.
    pub id: String,
    /// `model`.
    pub object: &'static str,
    /// Seconds since 1970; 0 for a kind.
    pub created: i64,
    /// `houston`, or `tenant` for an agent that the tenant made.
    pub owned_by: &'static str,
}

/// A conversation: `{"id": "conv_goal_0190…", "object": "conversation", "created_at": 1795338000, "metadata": {}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConversationObject {
    /// `conv_` and Houston's id.
    pub id: String,
    /// `conversation`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created_at: i64,
    /// What the client has said of it.
    pub metadata: BTreeMap<String, String>,
}

/// What was deleted: `{"id": "conv_goal_0190…", "object": "conversation.deleted", "deleted": true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// The id of what was deleted.
    pub id: String,
    /// What it was.
    pub object: &'static str,
    /// `true`.
    pub deleted: bool,
}

/// An item of a conversation, or of the input of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Item {
    /// A message of the user or of Houston.
    Input(InputMessage),
    /// What the agent said or did.
    Output(OutputItem),
    /// What the client itself has added; it has an `id`.
    Added(Value),
}

impl Item {
    /// The id of the item.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Input(message) => &message.id,
            Self::Output(item) => item.id(),
            Self::Added(item) => item["id"].as_str().unwrap_or_default(),
        }
    }
}

/// A message that an agent did not write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputMessage {
    /// `message`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `msg_…`.
    pub id: String,
    /// Always completed.
    pub status: ItemStatus,
    /// The user or Houston.
    pub role: Role,
    /// Its text.
    pub content: [Part; 1],
}

impl InputMessage {
    /// A message with this text.
    #[must_use]
    pub fn new(id: String, role: Role, text: String) -> Self {
        Self { kind: "message", id, status: ItemStatus::Completed, role, content: [Part::InputText { text }] }
    }
}
