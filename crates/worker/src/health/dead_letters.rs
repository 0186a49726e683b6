//! Check: messages that were given up because their workers kept dying.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let window_s = monitor.config.outcomes.window_s;
        let count = monitor.store.dead_letters(seconds(window_s)).await?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(Finding::none_or(count, "none", |count| {
            format!(
                "{count} messages were given up within {}: see the workers' logs for the cause",
                Span(window_s)
            )
        }))
    })
}
