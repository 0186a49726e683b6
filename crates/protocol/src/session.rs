//! Sessions, the history inside them, and what stands for the beginning of a long one.

use houston_domain::history::{Block, Role};
use houston_domain::id::{CompressionId, ResultId, RunId, SessionId};
use houston_domain::session::CompletionReason;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::owner::Owner;
use crate::schema;
use crate::time::Time;

/// A closed session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionResponse {
    #[schema(value_type = schema::SessionId)]
    pub id: SessionId,
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub owner: Owner,
    /// From 1.
    pub number: i32,
    #[schema(value_type = schema::CompletionReason)]
    pub completion_reason: CompletionReason,
    pub summary: String,
    /// `model`; or `extract`: the beginning of what the user wrote.
    pub summary_source: String,
    /// Whether summary and counts are still to be written.
    pub pending: bool,
    pub message_count: Option<i32>,
    pub token_count: Option<i64>,
    /// The positions of its first and last entry of the history.
    pub first_position: i64,
    pub last_position: i64,
    #[schema(value_type = schema::Time)]
    pub started_at: Time,
    #[schema(value_type = schema::Time)]
    pub completed_at: Time,
}

/// An entry of the history: what the model sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntryResponse {
    pub position: i64,
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    #[schema(value_type = schema::EntryRole)]
    pub role: Role,
    #[schema(value_type = Vec<schema::Block>)]
    pub content: Vec<Block>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}

/// A part of a long result of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultPartResponse {
    #[schema(value_type = schema::ResultId)]
    pub id: ResultId,
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub owner: Owner,
    pub tool: String,
    pub call_id: String,
    /// How long the whole is, in bytes.
    pub bytes: usize,
    /// Where this part begins.
    pub offset: usize,
    pub content: String,
    /// Where the next part begins; null: this is the last.
    pub next_offset: Option<usize>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}

/// A compression: a summary that stands for the beginning of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompressionResponse {
    #[schema(value_type = schema::CompressionId)]
    pub id: CompressionId,
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    /// It stands for the entries of the history after this position…
    pub session_position: i64,
    /// … up to this one.
    pub through_position: i64,
    pub summary: String,
    /// `budget` or `context_length`.
    pub reason: String,
    pub entries_before: usize,
    pub entries_after: usize,
    pub tokens_before: u64,
    pub tokens_after: u64,
    /// The model that wrote it; null: it is an extract.
    pub model: Option<String>,
    /// In US dollars; null when nobody knows.
    #[schema(value_type = Option<schema::Decimal>)]
    pub cost: Option<Decimal>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}
