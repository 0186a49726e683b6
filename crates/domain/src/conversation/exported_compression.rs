//! Compressions of a conversation document.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::compression::CompressionReason;

/// A summary that replaces the beginning of a session. For the last session, the next run is sent the newest
/// compression and the entries after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedCompression {
    /// The summary replaces the entries of its session up to and including this position, from 1.
    pub through_position: usize,
    /// The text of the summary.
    pub summary: String,
    /// Why the history was compressed.
    pub reason: CompressionReason,
    /// Entries of the request before the compression.
    pub entries_before: u32,
    /// Entries of the request after it, including the summary.
    pub entries_after: u32,
    /// Estimated tokens of the request before the compression.
    pub tokens_before: u64,
    /// Estimated tokens of the request after it.
    pub tokens_after: u64,
    /// The model that wrote it, as `provider/model`; `None` for an extract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Cost of writing it, in US dollars; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Decimal>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}
