//! Messages that were given up because they took their worker down again and again.

use super::config::seconds;
use super::span::Span;
use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let window_s = monitor.config.outcomes.window_s;
        let count = monitor.store.dead_letters(seconds(window_s)).await?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(Finding::none_or(count, "none", |count| {
            format!(
                "{count} messages were given up within {}: see the workers' logs for what killed them",
                Span(window_s)
            )
        }))
    })
}
