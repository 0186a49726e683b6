//! Sessions, history entries, large results and compressions.

use houston_domain::history::{Block, Role};
use houston_domain::id::{ResultId, RunId};
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::time::Time;

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
