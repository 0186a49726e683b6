//! Check and repair: tasks whose next attempt has been due for more than a day are given up.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.paused_task_s;
        let lanes = monitor.store.lane_services().await?;
        let tasks = monitor.kinds.served(true, &lanes, seconds(after_s));
        let expired =
            monitor.sweep(|batch| monitor.store.stop_expired(&tasks, seconds(after_s), batch)).await?;
        monitor.send_hints(&expired);
        let retries = monitor.store.retries().await?;
        let waiting =
            format!("{} runs wait for their next attempt, {} of them are due", retries.waiting, retries.due);
        Ok(Finding::none_or(expired.len(), &waiting, |count| {
            format!("{count} tasks were due for more than {} and are given up; {waiting}", Span(after_s))
        }))
    })
}
