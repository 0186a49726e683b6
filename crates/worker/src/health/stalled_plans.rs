//! Check and repair: plans whose run waits for nothing that can come are woken.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.stalled_plan_s;
        let stalled =
            monitor.sweep(|batch| monitor.store.wake_stalled_plans(seconds(after_s), batch)).await?;
        monitor.send_hints(&stalled);
        Ok(Finding::none_or(stalled.len(), "no plan waits for nothing", |count| {
            format!(
                "{count} plans waited for more than {} for nothing that could come: they were woken",
                Span(after_s)
            )
        }))
    })
}
