//! Check: the share of the latest runs that failed.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let config = monitor.config.outcomes;
        let found = monitor.store.outcomes(seconds(config.window_s), config.sample).await?;
        let summary = format!(
            "{} of the {} latest runs within {} failed",
            found.failed,
            found.ended,
            Span(config.window_s)
        );
        let too_many =
            found.ended >= config.least && found.failed * 100 > found.ended * config.failed_percent;
        Ok(if too_many { Finding::warn(summary) } else { Finding::ok(summary) })
    })
}
