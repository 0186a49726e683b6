//! Sessions, history entries, large results and compressions.

use houston_domain::history::{Block, Role};
use houston_domain::id::{CompressionId, ResultId, RunId, SessionId};
use houston_domain::session::CompletionReason;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
#[cfg(feature = "openapi")]
use crate::schema;
use crate::time::Time;

/// A closed session.
///
/// ```json
/// {"id": "session_0190…", "goal_id": "goal_0190…", "number": 1, "completion_reason": "session_timeout",
///  "summary": "Booked a hotel.", "summary_source": "model", "pending": false, "message_count": 3, "token_count": 120,
///  "first_position": 1, "last_position": 4, "started_at": "2026-11-22T09:00:00.000Z", "completed_at": "2026-11-22T09:05:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionResponse {
    pub id: SessionId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
    /// Number of the session within its agentable, from 1.
    pub number: i32,
    /// Why it was closed.
    pub completion_reason: CompletionReason,
    /// What the session was about: a summary or an extract.
    pub summary: String,
    /// `model`; or `extract`: cut from the beginning of what the user wrote.
    pub summary_source: String,
    /// Whether summary and counts are not written yet.
    pub pending: bool,
    /// Messages of both sides; null while `pending`.
    pub message_count: Option<i32>,
    /// Estimated tokens of the whole session; null while `pending`.
    pub token_count: Option<i64>,
    /// Position of its first entry in the history.
    pub first_position: i64,
    /// Position of its last entry in the history.
    pub last_position: i64,
    /// When its first entry was written.
    pub started_at: Time,
    /// When its last entry was written.
    pub completed_at: Time,
}

/// An entry of the history, which the model reads.
///
/// ```json
/// {"position": 3, "run_id": "run_0190…", "role": "assistant", "content": [{"type": "text", "text": "Hello"}],
///  "created_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryEntryResponse {
    /// Position in the history, from 1.
    pub position: i64,
    /// The run that wrote it.
    pub run_id: RunId,
    pub role: Role,
    pub content: Vec<Block>,
    /// When it was committed.
    pub created_at: Time,
}

/// A part of a large tool result.
///
/// ```json
/// {"id": "result_0190…", "goal_id": "goal_0190…", "tool": "fetch", "call_id": "call_1", "bytes": 40000, "offset": 0,
///  "content": "<html>…", "next_offset": 16384, "created_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResultPartResponse {
    pub id: ResultId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
    /// The name of the tool.
    pub tool: String,
    /// The id of the tool call, unique within its run.
    pub call_id: String,
    /// Length of the whole result, in bytes.
    pub bytes: usize,
    /// Byte at which this part begins.
    pub offset: usize,
    /// The text of this part.
    pub content: String,
    /// Byte at which the next part begins; null for the last part.
    pub next_offset: Option<usize>,
    pub created_at: Time,
}

/// A compression: a summary that replaces the beginning of a session.
///
/// ```json
/// {"id": "compression_0190…", "run_id": "run_0190…", "session_position": 0, "through_position": 60,
///  "summary": "They planned a trip.", "reason": "budget", "entries_before": 80, "entries_after": 21,
///  "tokens_before": 41000, "tokens_after": 12000, "model": "openai/gpt-5-mini", "cost": "0.0004",
///  "created_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompressionResponse {
    pub id: CompressionId,
    /// The run that needed it.
    pub run_id: RunId,
    /// The summary replaces the history entries after this position…
    pub session_position: i64,
    /// … up to and including this one.
    pub through_position: i64,
    pub summary: String,
    /// `budget` or `context_length`.
    pub reason: String,
    /// Entries of the request before the compression.
    pub entries_before: usize,
    /// Entries of the request after it, including the summary.
    pub entries_after: usize,
    /// Estimated tokens of the request before the compression.
    pub tokens_before: u64,
    /// Estimated tokens of the request after it.
    pub tokens_after: u64,
    /// The model that wrote it, as `provider/model`; null for an extract.
    pub model: Option<String>,
    /// Cost in US dollars; null if unknown.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Decimal>))]
    pub cost: Option<Decimal>,
    pub created_at: Time,
}
