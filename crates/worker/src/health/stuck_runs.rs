//! Attempts that go on for ever: a heartbeat is no progress.

use super::config::seconds;
use super::span::Span;
use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        // Behind every agent type's own limit: a minute for the watchdog to do its work.
        let after_s = monitor.config.runs.stuck_s.max(monitor.kinds.longest_s() + 60);
        let stopped = monitor.sweep(|batch| monitor.store.stop_stuck(seconds(after_s), batch)).await?;
        monitor.drop_stuck(&stopped);
        Ok(Finding::none_or(stopped.len(), "no attempt goes on for too long", |count| {
            format!("{count} attempts went on for more than {}: their runs are being ended", Span(after_s))
        }))
    })
}
