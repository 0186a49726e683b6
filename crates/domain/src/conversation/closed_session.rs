//! A closed session in a document.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::HistoryEntry;
use crate::session::CompletionReason;

/// Bytes of a session's summary. What a model writes is cut at 4,000; an extract of what the user wrote has 1,028
/// characters at most, of four bytes each.
pub const MAX_SUMMARY_BYTES: usize = 4_200;

/// A closed session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSession {
    /// Its first entry, from 1. The first session begins with 1, each other one where the one before it ends.
    pub first_position: usize,
    /// Its last entry.
    pub last_position: usize,
    /// Why it was closed.
    pub completion_reason: CompletionReason,
    /// What it was about. While `pending`, it may be left out: then the beginning of what the user wrote stands in.
    #[serde(default)]
    pub summary: String,
    /// Who wrote that.
    pub summary_source: SummarySource,
    /// Whether summary and counts are still to be written; so they will be after an import.
    pub pending: bool,
    /// Messages of both sides; known with the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<u32>,
    /// Tokens of the whole, about; known with the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
    /// When its first entry was written.
    pub started_at: DateTime<Utc>,
    /// When its last was.
    pub completed_at: DateTime<Utc>,
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummarySource {
    /// Nobody: it is the beginning of what the user wrote.
    Extract,
    /// A model.
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
    /// One of these entries, the first of which is at `first_position`, of which nothing else is known.
    #[must_use]
    pub fn unsummarised(first_position: usize, entries: &[HistoryEntry]) -> Self {
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
