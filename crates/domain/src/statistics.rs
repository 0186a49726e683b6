//! What a conversation came to in numbers. Sums of a long one are those of its latest runs and messages, and say so.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use crate::model::Usage;
use crate::run::RunStatus;

/// How much of a conversation is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Runs, the latest.
    pub runs: i64,
    /// Messages, the latest.
    pub messages: i64,
}

/// A run as statistics see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedRun {
    /// How it stands or ended.
    pub status: RunStatus,
    /// Model calls.
    pub iterations: i32,
    /// Tokens.
    pub usage: Usage,
    /// When a worker first took it.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// Runs in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Runs {
    /// How many were looked at.
    pub count: usize,
    /// Whether there are older ones that were not.
    pub more: bool,
    /// How many of each status.
    pub by_status: BTreeMap<&'static str, usize>,
    /// Model calls.
    pub iterations: i64,
    /// Tokens.
    pub usage: Usage,
    /// How long those that ended took, from the first worker to the end.
    pub duration_ms: Option<Durations>,
}

/// How long things took, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Durations {
    /// Half took no longer.
    pub p50: i64,
    /// 95 of 100 took no longer.
    pub p95: i64,
    /// The longest.
    pub max: i64,
}

impl Runs {
    /// The numbers of `runs`, of which there may be `more`.
    #[must_use]
    pub fn of(runs: &[CountedRun], more: bool) -> Self {
        let mut told = Self { count: runs.len(), more, ..Self::default() };
        let mut took: Vec<i64> = Vec::new();
        for run in runs {
            *told.by_status.entry(run.status.as_str()).or_default() += 1;
            told.iterations += i64::from(run.iterations);
            told.usage += run.usage;
            let duration = run.started_at.zip(run.ended_at).map(|(start, end)| end - start);
            took.extend(duration.map(|took: TimeDelta| took.num_milliseconds()));
        }
        took.sort_unstable();
        told.duration_ms = Durations::of(&took);
        told
    }
}

impl Durations {
    /// Of durations in order; none of none.
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
    fn runs_are_counted_by_status_and_those_that_ended_are_timed() {
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
        let told = Runs::of(&runs, true);
        assert_eq!((told.count, told.more, told.iterations, told.usage.input_tokens), (21, true, 42, 210));
        assert_eq!(told.by_status, BTreeMap::from([("message_sent", 20), ("running", 1)]));
        assert_eq!(told.duration_ms, Some(Durations { p50: 100, p95: 190, max: 200 }));
        assert_eq!(Runs::of(&[], false).duration_ms, None);
    }
}
