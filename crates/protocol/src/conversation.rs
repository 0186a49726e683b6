//! Requests that copy, import or reset a whole conversation.

use houston_domain::conversation::Conversation;
use houston_domain::id::UserId;
use serde::{Deserialize, Serialize};

/// Creates an agentable from a conversation document.
///
/// ```json
/// {"user_id": "user_0190…", "title": "A trip to Rome", "conversation": {"format": "houston.conversation", "version": 2, …}}
/// ```
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "struct Body")]
pub struct ImportConversation {
    /// The user that the new agentable works for.
    pub user_id: UserId,
    /// Replaces the title of the document: 1 to 200 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: Option<String>,
    pub conversation: Conversation,
}

/// Copies a conversation. All fields are optional.
///
/// ```json
/// {"position": 12, "title": "A trip to Rome, again", "knowledge": true}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields, expecting = "struct Body")]
pub struct ForkConversation {
    /// Position of the last history entry that is copied; all entries if absent.
    pub position: Option<i64>,
    /// Replaces the title of the original: 1 to 200 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: Option<String>,
    /// Whether notes, learnings and files that existed at that position are copied.
    pub knowledge: bool,
}

impl Default for ForkConversation {
    fn default() -> Self {
        Self { position: None, title: None, knowledge: true }
    }
}

/// Resets a conversation: models no longer see its history. All fields are optional: `{"knowledge": true}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ResetConversation {
    /// Whether notes, learnings and files are deleted too.
    pub knowledge: bool,
}

/// The result of a reset.
///
/// ```json
/// {"id": "goal_0190…", "closed_entries": 12, "deleted_notes": 0, "deleted_learnings": 0, "deleted_files": 0}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResetConversationResponse {
    /// The agentable whose conversation was reset.
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub id: String,
    /// History entries that models no longer see.
    pub closed_entries: i64,
    pub deleted_notes: u64,
    pub deleted_learnings: u64,
    pub deleted_files: u64,
}
