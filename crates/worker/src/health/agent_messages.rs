//! Repair: what was noted of messages that agents posted, and of conversations that they made, is deleted once it counts
//! against no limit any more.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.agent_message_s;
        let batch = monitor.config.tick.batch;
        let mut deleted = (0, 0);
        for _ in 0..monitor.config.tick.batches {
            let (posted, made) = monitor.store.delete_reach_counts(seconds(after_s), batch).await?;
            deleted = (deleted.0 + posted, deleted.1 + made);
            if [posted, made].into_iter().all(|some| i64::try_from(some).is_ok_and(|some| some < batch)) {
                break;
            }
        }
        let (posted, made) = deleted;
        let older = Span(after_s);
        Ok(Finding::ok(format!(
            "the counts of {posted} posts and {made} new goals older than {older} were deleted"
        )))
    })
}
