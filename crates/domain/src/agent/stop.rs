//! The stop rules: pure functions of a run's progress.

use chrono::{DateTime, TimeDelta, Utc};

use super::limits::Limits;
use crate::run::RunStatus;

/// The counters the stop rules read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Model calls so far.
    pub iterations: u32,
    /// How many turns in a row asked for the same single tool.
    pub same_tool: u32,
    /// Entries of the open session.
    pub history_entries: usize,
    /// When this attempt started.
    pub started_at: DateTime<Utc>,
}

/// The status with which a stop rule ends the run now; `None` when the next model call is allowed.
#[must_use]
pub fn before_model_call(limits: &Limits, progress: &Progress, now: DateTime<Utc>) -> Option<RunStatus> {
    let duration = i64::try_from(limits.max_duration_s).map_or(TimeDelta::MAX, TimeDelta::seconds);
    if progress.iterations >= limits.max_iterations {
        Some(RunStatus::MaxIterations)
    } else if progress.same_tool >= limits.max_same_tool {
        Some(RunStatus::SameTool)
    } else if now - progress.started_at >= duration {
        Some(RunStatus::MaxDuration)
    } else if limits.max_history_entries > 0 && progress.history_entries >= limits.max_history_entries {
        Some(RunStatus::HistoryFull)
    } else {
        None
    }
}
