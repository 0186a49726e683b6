//! Checks of what failed.

use serde::{Deserialize, Serialize};

use super::config::seconds;
use super::{Checked, Finding, Monitor, Span};

/// `[outcomes]`: share of the latest runs that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeConfig {
    /// Seconds to look back.
    pub window_s: u64,
    /// Latest runs that are read.
    pub sample: i64,
    /// Percent of them that may have failed.
    pub failed_percent: i64,
    /// Runs there must be for the check to warn.
    pub least: i64,
}

/// Check: messages that were given up because their workers kept dying.
pub(super) async fn dead_letters(monitor: &Monitor) -> Checked {
    let window_s = monitor.config.outcomes.window_s;
    let count = monitor.store.dead_letters(seconds(window_s)).await?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Finding::none_or(count, "none", |count| {
        format!(
            "{count} messages were given up within {}: see the workers' logs for the cause",
            Span(window_s)
        )
    }))
}

/// Check: the share of the latest runs that failed.
pub(super) async fn failed_runs(monitor: &Monitor) -> Checked {
    let config = monitor.config.outcomes;
    let found = monitor.store.outcomes(seconds(config.window_s), config.sample).await?;
    let summary = format!(
        "{} of the {} latest runs within {} failed",
        found.failed,
        found.ended,
        Span(config.window_s)
    );
    let too_many = found.ended >= config.least && found.failed * 100 > found.ended * config.failed_percent;
    Ok(if too_many { Finding::warn(summary) } else { Finding::ok(summary) })
}
