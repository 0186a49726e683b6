//! Conversations as a whole: copied, imported, emptied.

use houston_domain::conversation::Conversation;
use houston_domain::id::UserId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Creates an agentable from a document.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportConversation {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    /// Instead of the document's own: 1 to 200 characters.
    pub title: Option<String>,
    #[schema(value_type = schema::Conversation)]
    pub conversation: Conversation,
}

/// Copies a conversation. Everything may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForkConversation {
    /// The position of the last entry of the history that is copied; all, if not given.
    pub position: Option<i64>,
    /// Instead of the original's: 1 to 200 characters.
    pub title: Option<String>,
    /// Whether the notes and learnings of that time are copied.
    pub knowledge: bool,
}

impl Default for ForkConversation {
    fn default() -> Self {
        Self { position: None, title: None, knowledge: true }
    }
}

/// Empties a conversation. Everything may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResetConversation {
    /// Whether notes and learnings are deleted, too.
    pub knowledge: bool,
}

/// What was emptied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResetConversationResponse {
    #[schema(value_type = schema::AgentableId)]
    pub id: String,
    /// Entries of the history that models no longer see.
    pub closed_entries: i64,
    pub deleted_notes: u64,
    pub deleted_learnings: u64,
}
