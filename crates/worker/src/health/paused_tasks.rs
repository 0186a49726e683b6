//! Tasks that wait for their next attempt: tried again when it is due, given up after a day.

use super::config::seconds;
use super::span::Span;
use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.paused_task_s;
        let tasks = monitor.kinds.tasks();
        let expired =
            monitor.sweep(|batch| monitor.store.stop_expired(tasks, seconds(after_s), batch)).await?;
        monitor.ring(&expired);
        let retries = monitor.store.retries().await?;
        let waiting =
            format!("{} runs wait for their next attempt, {} of them are due", retries.waiting, retries.due);
        Ok(Finding::none_or(expired.len(), &waiting, |count| {
            format!("{count} tasks waited for more than {} and are given up; {waiting}", Span(after_s))
        }))
    })
}
