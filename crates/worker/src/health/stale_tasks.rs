//! Open tasks that no worker takes although there are some: done.

use houston_domain::intervention::Intervention;

use super::config::seconds;
use super::span::Span;
use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.stale_task_s;
        let (tasks, reason) = (monitor.kinds.tasks(), Intervention::StaleTask);
        let stale = monitor
            .sweep(|batch| monitor.store.stop_stale(tasks, false, seconds(after_s), reason, batch))
            .await?;
        monitor.ring(&stale);
        Ok(Finding::none_or(stale.len(), "no open task is forgotten", |count| {
            format!("{count} tasks did not change for more than {} and are ended as completed", Span(after_s))
        }))
    })
}
