//! Sessions: stretches of the LLM history between two closings. Closed sessions with their summaries are the agent's
//! episodic memory.

pub mod quiet;

use std::time::Duration;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, Utc, Weekday};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::agent::SEND_MESSAGE;
use crate::history::{Block, Entry};
use crate::id::SessionId;
use crate::inner_call::inner_call;
use crate::local_time::instant;
use crate::owner::Owner;
use crate::setting::positive;
use crate::time::Time;

settings! {
    /// `jobs/session_archive.toml`: when sessions are closed, and how they are summarised. All processes should have
    /// the same file.
    ///
    /// ```toml
    /// quiet_ms = 1_800_000
    /// every_ms = 10_000
    /// batch = 500
    /// summaries_at_once = 4
    /// …
    /// ```
    pub struct SessionArchive {
        /// How long a session must be without messages before it is closed, in ms.
        pub quiet_ms: u64 = 1_800_000, "positive";
        /// Interval at which Postgres is searched for sessions to close, in ms.
        pub every_ms: u64 = 10_000, "positive";
        /// Sessions that one sweep closes.
        pub batch: i64 = 500, "positive";
        /// Summaries that one worker writes at once.
        pub summaries_at_once: u32 = 4, "positive";
        /// Seconds until another worker may write a summary that was not finished.
        pub summary_lease_s: u64 = 360, "positive";
        /// Maximum number of attempts at a summary.
        pub summary_attempts: i32 = 3;
        /// Tokens of the session that the model reads for a summary.
        pub summary_input_tokens: u64 = 8_000, "positive";
        /// Tokens of a summary.
        pub summary_output_tokens: u32 = 300, "positive";
        /// Entries, starting with the first, from which an extract is taken.
        pub extract_entries: i32 = 40;
        /// Texts of the user in an extract.
        pub extract_texts: i32 = 5;
        /// Characters of each text in an extract.
        pub extract_chars: i32 = 200;
        /// Characters of each tool input and result that the model reads for a summary.
        pub summary_tool_chars: usize = 300, "positive";
        /// Summaries in each prompt.
        pub prompt_summaries: i32 = 5;
        /// Characters of each summary in a prompt.
        pub prompt_summary_chars: i32 = 1_000, "positive";
        /// Sessions that one search of an agent finds.
        pub search_sessions: i32 = 5, "positive";
        /// Entries of a session that an agent reads at once.
        pub read_entries: u32 = 20, "positive";
        /// Characters of each text in those entries.
        pub read_chars: usize = 1_000, "positive";
    }
}

impl SessionArchive {
    /// [`quiet_ms`](Self::quiet_ms) as a duration.
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }
}

names! {
    /// Why a session was closed; a name of a newer release is read as the first.
    #[derive(Hash, Default)]
    pub enum CompletionReason {
        /// It was without messages for [`SessionArchive::quiet_ms`].
        #[default]
        SessionTimeout = "session_timeout",
        /// Its purpose was fulfilled: the feed is written.
        FeedGenerationComplete = "feed_generation_complete",
        /// A person reset the conversation.
        Reset = "reset",
    }
}

names! {
    /// How a summary was produced.
    pub enum SummarySource {
        /// Cut from the beginning of what the user wrote.
        Extract = "extract",
        /// Written by a model.
        Model = "model",
    }
}

/// A closed session.
///
/// ```json
/// {"id": "session_0190…", "goal_id": "goal_0190…", "number": 1, "completion_reason": "session_timeout",
///  "summary": "Booked a hotel.", "summary_source": "model", "pending": false, "message_count": 3, "token_count": 120,
///  "first_position": 1, "last_position": 4, "started_at": "2026-11-22T09:00:00.000Z", "completed_at": "2026-11-22T09:05:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SessionResponse))]
pub struct Session {
    pub id: SessionId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub owner: Owner,
    /// Number of the session within its agentable, from 1.
    pub number: i32,
    /// Why it was closed.
    #[serde(rename = "completion_reason")]
    pub reason: CompletionReason,
    /// What the session was about: a summary or an extract.
    pub summary: String,
    /// `model`; or `extract`: cut from the beginning of what the user wrote.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub summary_source: SummarySource,
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

names! {
    /// A period that ends now, in the user's time zone.
    #[derive(Hash)]
    pub enum Timeframe {
        /// Since midnight.
        Today = "today",
        /// The day before today.
        Yesterday = "yesterday",
        /// Since Monday of last week.
        LastWeek = "last_week",
        /// Since the first of last month.
        LastMonth = "last_month",
        /// Since the first of January of last year.
        LastYear = "last_year",
    }
}

impl Timeframe {
    /// Its first day, and the day after its last one, if that is not today.
    fn days(self, today: NaiveDate) -> (Option<NaiveDate>, Option<NaiveDate>) {
        let monday = today.week(Weekday::Mon).checked_first_day();
        match self {
            Self::Today => (Some(today), None),
            Self::Yesterday => (today.pred_opt(), Some(today)),
            Self::LastWeek => (monday.and_then(|day| day.checked_sub_days(Days::new(7))), None),
            Self::LastMonth => {
                (today.with_day(1).and_then(|day| day.checked_sub_months(Months::new(1))), None)
            }
            Self::LastYear => (NaiveDate::from_ymd_opt(today.year() - 1, 1, 1), None),
        }
    }
}

/// A search in the closed sessions of an agentable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSearch {
    /// The words to search for.
    pub query: String,
    /// Only sessions in this period.
    pub timeframe: Option<Timeframe>,
    /// Only from this day on, in the user's time zone.
    pub from: Option<NaiveDate>,
    /// Only up to this day, in the user's time zone.
    pub to: Option<NaiveDate>,
}

/// Sessions that end at or after the first time, and begin before the second.
pub type Period = (Option<DateTime<Utc>>, Option<DateTime<Utc>>);

impl SessionSearch {
    /// When the sessions were that are searched, at `now` in the user's time zone.
    pub fn period(&self, zone: Tz, now: DateTime<Utc>) -> Period {
        let today = now.with_timezone(&zone).date_naive();
        let (since, until) = self.timeframe.map_or((None, None), |timeframe| timeframe.days(today));
        let after = self.to.and_then(|to| to.succ_opt());
        (
            [since, self.from].into_iter().flatten().max().and_then(|day| midnight(zone, day)),
            [until, after].into_iter().flatten().min().and_then(|day| midnight(zone, day)),
        )
    }
}

/// When a day begins, or the first one after it, if the zone skipped it.
fn midnight(zone: Tz, day: NaiveDate) -> Option<DateTime<Utc>> {
    day.iter_days().take(3).find_map(|day| instant(zone, day.and_time(NaiveTime::MIN)))
}

/// Maximum length of the whole text, in bytes: a hundred pages. A tsvector has at most a megabyte, and less than five times as
/// much as its text.
const MAX_BYTES: usize = 200_000;

/// Maximum length of the input or result of a tool, in characters: a web page is not what was said.
const TOOL_CHARS: usize = 2_000;

/// The searchable text of a session, built from its entries in order. Its length is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchText(String);

impl SearchText {
    /// Adds the next entry.
    pub fn add(&mut self, entry: &Entry) {
        for block in &entry.content {
            match block {
                Block::Text { text, .. } => self.push(text, usize::MAX),
                Block::ToolUse { name, input, .. } => match inner_call(name, input) {
                    (SEND_MESSAGE, input) => {
                        self.push(input["content"].as_str().unwrap_or_default(), usize::MAX);
                    }
                    (_, input) => self.push(&input.to_string(), TOOL_CHARS),
                },
                Block::ToolResult { content, .. } => self.push(content, TOOL_CHARS),
                Block::Thinking { .. } | Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => {}
            }
        }
    }

    /// The whole text: one line for each text of an entry.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn push(&mut self, text: &str, max_chars: usize) {
        let left = MAX_BYTES.saturating_sub(self.0.len());
        if left > 0 {
            let end = text.char_indices().nth(left.min(max_chars)).map_or(text.len(), |(end, _)| end);
            self.0.push_str(&text[..text.floor_char_boundary(end.min(left))]);
            self.0.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::local_time::parse_zone;

    #[test]
    fn names_are_the_same_in_json_and_sql() {
        for timeframe in Timeframe::ALL {
            assert_eq!(serde_json::to_value(timeframe).unwrap(), timeframe.as_str());
        }
        for reason in [
            CompletionReason::SessionTimeout,
            CompletionReason::FeedGenerationComplete,
            CompletionReason::Reset,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(CompletionReason::from_name(reason.as_str()), Some(reason));
        }
    }

    #[test]
    fn timeframes_are_days_in_the_time_zone_of_the_user() {
        let (zone, now) = (parse_zone("Pacific/Auckland"), "2026-03-01T11:30:00Z".parse().unwrap());
        let day = |text: &str| text.parse().ok();
        let of = |timeframe, from, to| {
            SessionSearch { query: String::new(), timeframe, from, to }.period(zone, now)
        };
        let at = |text: &str| text.parse::<DateTime<Utc>>().ok();
        assert_eq!(of(None, None, None), (None, None));
        // It is Monday, 2 March, half past midnight.
        for (timeframe, since, until) in [
            (Timeframe::Today, "2026-03-01T11:00:00Z", None),
            (Timeframe::Yesterday, "2026-02-28T11:00:00Z", at("2026-03-01T11:00:00Z")),
            (Timeframe::LastWeek, "2026-02-22T11:00:00Z", None),
            (Timeframe::LastMonth, "2026-01-31T11:00:00Z", None),
            (Timeframe::LastYear, "2024-12-31T11:00:00Z", None),
        ] {
            assert_eq!(of(Some(timeframe), None, None), (at(since), until), "{timeframe:?}");
        }
        let both = of(Some(Timeframe::LastWeek), day("2026-02-25"), day("2026-02-26"));
        assert_eq!(both, (at("2026-02-24T11:00:00Z"), at("2026-02-26T11:00:00Z")));
        let wider = of(Some(Timeframe::Yesterday), day("2020-01-01"), day("2030-01-01"));
        assert_eq!(wider, of(Some(Timeframe::Yesterday), None, None), "the narrower one counts");
        // The clocks of Beirut skip the first hour of the day; Samoa skipped 30 December 2011.
        let begins = |zone, date: &str| midnight(parse_zone(zone), date.parse().unwrap());
        assert_eq!(begins("Asia/Beirut", "2026-03-29"), at("2026-03-28T22:00:00Z"));
        assert_eq!(begins("Pacific/Apia", "2011-12-30"), at("2011-12-30T10:00:00Z"));
    }

    #[test]
    fn defaults_equal_the_shipped_file() {
        let shipped: SessionArchive =
            toml::from_str(include_str!("../../../jobs/session_archive.toml")).unwrap();
        assert_eq!(shipped, SessionArchive::default());
    }

    #[test]
    fn contains_messages_and_the_beginning_of_tool_texts() {
        let mut search_text = SearchText::default();
        let call = |name: &str, input| Block::ToolUse { id: "c".into(), name: name.into(), input, raw: None };
        search_text.add(&Entry::assistant(vec![
            Block::Thinking { text: "hm".into(), raw: None },
            call("fetch", json!({"url": "kyoto.example"})),
            call(SEND_MESSAGE, json!({"content": "To Kyoto."})),
        ]));
        let content = format!("{}end", "ä".repeat(TOOL_CHARS));
        search_text.add(&Entry::user(vec![Block::ToolResult {
            tool_use_id: "c".into(),
            content,
            is_error: false,
            code: None,
        }]));
        let text = search_text.text();
        assert!(text.starts_with("{\"url\":\"kyoto.example\"}\nTo Kyoto.\nää"), "{text}");
        assert!(!text.contains("end") && !text.contains("hm"));
        for _ in 0..3 {
            search_text.add(&Entry::user(vec![Block::text("ä€".repeat(MAX_BYTES))]));
        }
        assert!((MAX_BYTES - 2..=MAX_BYTES + 1).contains(&search_text.text().len()));
    }
}
