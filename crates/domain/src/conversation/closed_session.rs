//! Closed sessions of a conversation document.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::HistoryEntry;
use crate::session::CompletionReason;

/// Maximum length of a session's summary, in bytes. Model-written summaries are cut at 4,000 bytes; an extract of what
/// the user wrote has at most 1,028 characters of up to four bytes each.
pub const MAX_SUMMARY_BYTES: usize = 4_200;

/// A closed session.
///
/// ```json
/// {"first_position": 1, "last_position": 4, "completion_reason": "session_timeout", "summary": "Booked a hotel.",
///  "summary_source": "model", "pending": false, "message_count": 3, "token_count": 120,
///  "started_at": "2026-11-20T10:00:00Z", "completed_at": "2026-11-20T10:05:00Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSession {
    /// Position of its first entry, from 1. The first session begins at 1, every other one directly after its
    /// predecessor.
    pub first_position: usize,
    /// Position of its last entry.
    pub last_position: usize,
    /// Why it was closed.
    pub completion_reason: CompletionReason,
    /// The summary. It may be empty while `pending`: then the beginning of what the user wrote is used
    /// instead.
    #[serde(default)]
    pub summary: String,
    /// How the summary was produced.
    pub summary_source: SummarySource,
    /// Whether summary and counts are not written yet; they are written after an import.
    pub pending: bool,
    /// Messages of both sides; `None` while `pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<u32>,
    /// Estimated tokens of the whole session; `None` while `pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
    /// When its first entry was written.
    pub started_at: DateTime<Utc>,
    /// When its last entry was written.
    pub completed_at: DateTime<Utc>,
}

/// How a summary was produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummarySource {
    /// Cut from the beginning of what the user wrote.
    Extract,
    /// Written by a model.
    Model,
}

impl SummarySource {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Extract => "extract",
            Self::Model => "model",
        }
    }
}

impl ClosedSession {
    /// A session of `entries`, the first of which is at `first_position`, with its summary still pending.
    #[must_use]
    pub fn pending(first_position: usize, entries: &[HistoryEntry]) -> Self {
        let times = || entries.iter().map(|entry| entry.created_at);
        Self {
            first_position,
            last_position: (first_position + entries.len()).saturating_sub(1),
            completion_reason: CompletionReason::SessionTimeout,
            summary: String::new(),
            summary_source: SummarySource::Extract,
            pending: true,
            message_count: None,
            token_count: None,
            started_at: times().min().unwrap_or_default(),
            completed_at: times().max().unwrap_or_default(),
        }
    }
}
