//! Statistics of a conversation. For a long one, sums cover only its latest runs and messages, and `more` says so.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::model::Usage;
use crate::run::RunStatus;

/// How many rows statistics read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Runs, starting with the latest.
    pub runs: i64,
    /// Messages, starting with the latest.
    pub messages: i64,
}

/// The values of a run that statistics use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedRun {
    /// Its status.
    pub status: RunStatus,
    /// Model calls.
    pub iterations: i32,
    /// Its tokens and cost.
    pub usage: Usage,
    /// When a worker first claimed it.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// Statistics of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Cost of all its model calls in US dollars; `None` when no call has a price.
    pub cost: Option<Decimal>,
    /// Number of calls without a price.
    pub unpriced_calls: i32,
    /// Positions of its history, including entries that were rolled back.
    pub entries: i64,
    /// Positions of the open session.
    pub session_entries: i64,
    /// Its latest runs, summed up.
    pub runs: Runs,
    /// Its latest messages, counted.
    pub messages: Messages,
    /// Number of its notes.
    pub notes: i64,
    /// Number of its learnings.
    pub learnings: i64,
}

/// The latest messages of a thread, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Messages {
    /// How many messages were counted.
    pub count: i64,
    /// Whether there may be older messages that were not counted.
    pub more: bool,
    /// Messages of the user.
    pub user: i64,
    /// Messages of the agent.
    pub agent: i64,
    /// Error messages.
    pub error: i64,
    /// Tools that were called, the most frequent first.
    pub tools: Vec<ToolCalls>,
}

/// Calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// The tool's name.
    pub name: String,
    /// How often it was called.
    pub calls: i64,
    /// How many of the calls failed.
    pub failed: i64,
}

/// Statistics of runs.
///
/// ```json
/// {"count": 2, "more": false, "by_status": {"message_sent": 2}, "iterations": 3,
///  "usage": {"input_tokens": 900, "output_tokens": 40}, "duration_ms": {"p50": 1200, "p95": 1900, "max": 1900}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Runs {
    /// Number of runs that were counted.
    pub count: usize,
    /// Whether there are older runs that were not counted.
    pub more: bool,
    /// Number of runs by status.
    pub by_status: BTreeMap<String, usize>,
    /// Number of model calls.
    pub iterations: i64,
    /// Sum of tokens and cost.
    pub usage: Usage,
    /// Durations of ended runs, from the first claim to the end; `None` if none has ended.
    pub duration_ms: Option<Durations>,
}

/// Percentiles of durations, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// The median.
    pub p50: i64,
    /// The 95th percentile.
    pub p95: i64,
    /// The maximum.
    pub max: i64,
}

impl Runs {
    /// The statistics of `runs`; `more` says whether there are older ones.
    pub fn of(runs: &[CountedRun], more: bool) -> Self {
        let mut statistics = Self { count: runs.len(), more, ..Self::default() };
        let mut took: Vec<i64> = Vec::new();
        for run in runs {
            *statistics.by_status.entry(run.status.as_str().to_owned()).or_default() += 1;
            statistics.iterations += i64::from(run.iterations);
            statistics.usage += run.usage;
            let duration = run.started_at.zip(run.ended_at).map(|(start, end)| end - start);
            took.extend(duration.map(|took: TimeDelta| took.num_milliseconds()));
        }
        took.sort_unstable();
        statistics.duration_ms = Durations::of(&took);
        statistics
    }
}

impl Durations {
    /// The percentiles of sorted durations; `None` if there are none.
    fn of(sorted: &[i64]) -> Option<Self> {
        let at =
            |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { p50: at(50)?, p95: at(95)?, max: at(100)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_status_and_ended_ones_are_timed() {
        let at = |ms| Some(DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms));
        let run = |status, ended: Option<i64>| CountedRun {
            status,
            iterations: 2,
            usage: Usage { input_tokens: 10, ..Usage::default() },
            started_at: at(0),
            ended_at: ended.and_then(at),
        };
        let mut runs: Vec<CountedRun> =
            (1..=20).map(|ms| run(RunStatus::MessageSent, Some(ms * 10))).collect();
        runs.push(run(RunStatus::Running, None));
        let statistics = Runs::of(&runs, true);
        assert_eq!(
            (statistics.count, statistics.more, statistics.iterations, statistics.usage.input_tokens),
            (21, true, 42, 210)
        );
        assert_eq!(
            statistics.by_status,
            BTreeMap::from([("message_sent".to_owned(), 20), ("running".to_owned(), 1)])
        );
        assert_eq!(statistics.duration_ms, Some(Durations { p50: 100, p95: 190, max: 200 }));
        assert_eq!(Runs::of(&[], false).duration_ms, None);
    }
}
