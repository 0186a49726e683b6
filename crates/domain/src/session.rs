//! Sessions: stretches of the LLM history between two closings. A closed session with its summary is the agent's
//! history, its episodic memory.

mod search_text;

use std::time::Duration;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::id::SessionId;

pub use self::search_text::SearchText;

/// `jobs/session_archive.toml`: when sessions are closed, and what is made of them. All processes should have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionArchive {
    /// How long nothing may have been said until a session is over, in ms.
    pub quiet_ms: u64,
    /// How often Postgres is searched for sessions that are over, in ms.
    pub every_ms: u64,
    /// Sessions one sweep closes.
    pub batch: i64,
    /// Summaries one worker writes at once.
    pub summaries_at_once: u32,
    /// Seconds until another worker writes a summary.
    pub summary_lease_s: u64,
    /// Times a summary is begun.
    pub summary_attempts: i32,
    /// Tokens of a conversation that its summary is made from.
    pub summary_input_tokens: u64,
    /// Tokens of a summary.
    pub summary_output_tokens: u32,
    /// Entries, from the first, that an extract is made of.
    pub extract_entries: i32,
    /// Texts of the user in an extract.
    pub extract_texts: i32,
    /// Characters of each.
    pub extract_chars: i32,
    /// Characters of each tool input and result that a summary is made from.
    pub summary_tool_chars: usize,
    /// Summaries in each prompt.
    pub prompt_summaries: i32,
    /// Characters of each.
    pub prompt_summary_chars: i32,
    /// Sessions that one search by the tool `search_agent_history` finds.
    pub search_sessions: i32,
    /// Entries of a session that one call of that tool reads.
    pub read_entries: u32,
    /// Characters of each text in them.
    pub read_chars: usize,
}

impl Default for SessionArchive {
    fn default() -> Self {
        Self {
            quiet_ms: 1_800_000,
            every_ms: 10_000,
            batch: 500,
            summaries_at_once: 4,
            summary_lease_s: 360,
            summary_attempts: 3,
            summary_input_tokens: 8_000,
            summary_output_tokens: 300,
            extract_entries: 40,
            extract_texts: 5,
            extract_chars: 200,
            summary_tool_chars: 300,
            prompt_summaries: 5,
            prompt_summary_chars: 1_000,
            search_sessions: 5,
            read_entries: 20,
            read_chars: 1_000,
        }
    }
}

impl SessionArchive {
    /// How long nothing may have been said until a session is over.
    #[must_use]
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }
}

/// Why a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionReason {
    /// Nothing was said for long enough.
    SessionTimeout,
    /// What it was for is done: the feed is written.
    FeedGenerationComplete,
    /// A person wanted a new beginning.
    Reset,
}

impl CompletionReason {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionTimeout => "session_timeout",
            Self::FeedGenerationComplete => "feed_generation_complete",
            Self::Reset => "reset",
        }
    }

    /// The reason of that name; a timeout for a name nobody knows.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let all = [Self::SessionTimeout, Self::FeedGenerationComplete, Self::Reset];
        all.into_iter().find(|reason| reason.as_str() == name).unwrap_or(Self::SessionTimeout)
    }
}

/// When something was said, in the user's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeframe {
    /// Since midnight.
    Today,
    /// The day before.
    Yesterday,
    /// Since Monday of last week.
    LastWeek,
    /// Since the first of last month.
    LastMonth,
    /// Since the first of January of last year.
    LastYear,
}

impl Timeframe {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Today, Self::Yesterday, Self::LastWeek, Self::LastMonth, Self::LastYear];

    /// The name in the database and in tools.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::Yesterday => "yesterday",
            Self::LastWeek => "last_week",
            Self::LastMonth => "last_month",
            Self::LastYear => "last_year",
        }
    }
}

/// What an agent wants to know of its closed sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryQuery {
    /// The sessions that fit best, with their summaries.
    Search {
        /// What to look for.
        query: String,
        /// When it was.
        timeframe: Option<Timeframe>,
        /// The first day, in the user's time zone.
        from: Option<NaiveDate>,
        /// The last day.
        to: Option<NaiveDate>,
    },
    /// What was said in one of them, a page of it.
    Read {
        /// Which one.
        session: SessionId,
        /// Only what comes after this position.
        after: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_everywhere() {
        for timeframe in Timeframe::ALL {
            assert_eq!(serde_json::to_value(timeframe).unwrap(), timeframe.as_str());
        }
        for reason in [
            CompletionReason::SessionTimeout,
            CompletionReason::FeedGenerationComplete,
            CompletionReason::Reset,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(CompletionReason::from_name(reason.as_str()), reason);
        }
    }

    #[test]
    fn the_defaults_are_what_ships() {
        let shipped: SessionArchive =
            toml::from_str(include_str!("../../../jobs/session_archive.toml")).unwrap();
        assert_eq!(shipped, SessionArchive::default());
    }
}
