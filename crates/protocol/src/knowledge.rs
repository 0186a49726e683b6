//! What agents know: notes, learnings, memories, custom instructions, feed items.

use houston_domain::id::{CustomInstructionId, FeedItemId, LearningId, MemoryId, NoteId, RunId, UserId};
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::time::Time;

/// A note, which an agent or a person wrote for an agentable.
///
/// ```json
/// {"id": "note_0190…", "goal_id": "goal_0190…", "run_id": "run_0190…", "title": "Hotels", "content": "…",
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoteResponse {
    pub id: NoteId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
    /// The run that wrote it; null if no run did.
    pub run_id: Option<RunId>,
    pub title: String,
    pub content: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A learning: what an agent learned about its user or its goal.
///
/// ```json
/// {"id": "learning_0190…", "goal_id": "goal_0190…", "content": "Prefers trains.",
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LearningResponse {
    pub id: LearningId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
    pub content: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A memory: what all agents of a user should remember.
///
/// ```json
/// {"id": "memory_0190…", "user_id": "user_0190…", "run_id": "run_0190…", "content": "Is vegetarian.",
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemoryResponse {
    pub id: MemoryId,
    pub user_id: UserId,
    /// The run that stored it; null if no run did.
    pub run_id: Option<RunId>,
    pub content: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A custom instruction: a rule of a user that all their agents follow.
///
/// ```json
/// {"id": "instruction_0190…", "user_id": "user_0190…", "content": "Answer in German.",
///  "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CustomInstructionResponse {
    pub id: CustomInstructionId,
    pub user_id: UserId,
    pub content: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A feed item: what an agent reports to a user without being asked.
///
/// ```json
/// {"id": "feed_item_0190…", "user_id": "user_0190…", "run_id": "run_0190…", "title": "Tickets", "content": "…",
///  "read_at": null, "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedItemResponse {
    pub id: FeedItemId,
    pub user_id: UserId,
    /// The run that wrote it; null if no run did.
    pub run_id: Option<RunId>,
    pub title: String,
    pub content: String,
    /// When the user read it; null if unread.
    pub read_at: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Creates a note or a feed item: `{"title": "Hotels", "content": "Near the station: …"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateDocument {
    /// 1 to 200 characters on one line.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: String,
    /// 1 byte to 64 KiB.
    pub content: String,
}

/// Changes a note: given fields are set, others stay. `{"title": "Hotels in Rome"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateNote {
    /// 1 to 200 characters on one line.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: Option<String>,
    /// 1 byte to 64 KiB.
    pub content: Option<String>,
}

/// Changes a feed item: given fields are set, others stay. `{"read": true}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateFeedItem {
    /// 1 to 200 characters on one line.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: Option<String>,
    /// 1 byte to 64 KiB.
    pub content: Option<String>,
    /// Whether the user has read it.
    pub read: Option<bool>,
}

/// The text of a learning, memory or custom instruction: `{"content": "Prefers trains."}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Sentence {
    /// 1 to 2,000 bytes.
    pub content: String,
}
