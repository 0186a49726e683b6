//! Check and repair: open tasks that no worker takes although workers run are ended.

use houston_domain::intervention::Intervention;

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.stale_task_s;
        let lanes = monitor.store.lane_services().await?;
        let tasks = monitor.kinds.served(true, &lanes, seconds(after_s));
        let reason = Intervention::StaleTask;
        let stale = monitor
            .sweep(|batch| monitor.store.stop_stale(&tasks, false, seconds(after_s), reason, batch))
            .await?;
        monitor.send_hints(&stale);
        Ok(Finding::none_or(stale.len(), "no open task is stale", |count| {
            format!("{count} tasks did not change for more than {} and are ended as completed", Span(after_s))
        }))
    })
}
