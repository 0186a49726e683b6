//! A compression in a document.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::compression::Reason;

/// What stands for the beginning of a session: of the last one, the next run is sent the newest and what comes after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptCompression {
    /// It stands for the entries of its session up to this position, from 1.
    pub through_position: usize,
    /// What it says.
    pub summary: String,
    /// Why it was made.
    pub reason: Reason,
    /// Entries that were sent before.
    pub entries_before: u32,
    /// Entries that were sent after, the summary among them.
    pub entries_after: u32,
    /// Tokens that were sent before, about.
    pub tokens_before: u64,
    /// The same after.
    pub tokens_after: u64,
    /// Who wrote it, as `provider/model`; not there: it is an extract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What that cost in US dollars, if anybody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Decimal>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}
