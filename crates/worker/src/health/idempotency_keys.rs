//! Repair: expired idempotency keys are deleted, and so are rate limits of which nothing is used and old answers of context
//! providers.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

/// Batches of this check are larger than those of the others by this factor: rows are small, no other rows depend on them,
/// and a busy installation creates hundreds a second.
const BATCH_FACTOR: i64 = 10;

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.requests.idempotency_key_s;
        let batch = monitor.config.tick.batch * BATCH_FACTOR;
        let mut deleted = 0;
        for _ in 0..monitor.config.tick.batches {
            let some = monitor.store.delete_idempotency_keys(seconds(after_s), batch).await?;
            deleted += some;
            if i64::try_from(some).is_ok_and(|some| some < batch) {
                break;
            }
        }
        monitor.store.forget_rates(batch).await?;
        monitor.store.context_cache().forget_old(monitor.config.tick.batch).await?;
        Ok(Finding::ok(format!("{deleted} idempotency keys older than {} were deleted", Span(after_s))))
    })
}
