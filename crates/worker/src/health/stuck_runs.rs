//! Check and repair: attempts that run for too long are ended, although their worker's lease is alive.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        // At least a minute more than every agent type's own limit, so that the watchdog acts first.
        let after_s = monitor.config.runs.stuck_s.max(monitor.kinds.longest_s() + 60);
        let stopped = monitor.sweep(|batch| monitor.store.stop_stuck(seconds(after_s), batch)).await?;
        monitor.drop_stuck(&stopped);
        Ok(Finding::none_or(stopped.len(), "no attempt runs for too long", |count| {
            format!("{count} attempts ran for more than {}: their runs are being ended", Span(after_s))
        }))
    })
}
