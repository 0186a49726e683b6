//! Repair: tasks that ended long ago are deleted.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

/// Tasks one transaction deletes. Each has rows in nine tables.
const BATCH: i64 = 100;

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after = seconds(monitor.config.runs.ended_task_s);
        let (tasks, batch) = (monitor.kinds.tasks(), monitor.config.tick.batch.min(BATCH));
        let mut deleted = 0;
        for _ in 0..monitor.config.tick.batches {
            let some = monitor.store.delete_finished(tasks, after, batch).await?;
            deleted += some;
            if i64::try_from(some).is_ok_and(|some| some < batch) {
                break;
            }
        }
        Ok(Finding::ok(format!(
            "{deleted} tasks that ended {} ago or earlier were deleted",
            Span(after.as_secs())
        )))
    })
}
