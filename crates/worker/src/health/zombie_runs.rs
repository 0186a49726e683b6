//! Check and repair: open runs to which no lock refers are cancelled.

use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let mut cancelled = 0;
        for _ in 0..monitor.config.tick.batches {
            let some = monitor.store.cancel_zombies(monitor.config.tick.batch).await?;
            cancelled += some;
            if some < monitor.config.tick.batch.unsigned_abs() {
                break;
            }
        }
        let cancelled = usize::try_from(cancelled).unwrap_or(usize::MAX);
        Ok(Finding::none_or(cancelled, "every open run has a lock", |count| {
            format!("{count} open runs without a lock were cancelled")
        }))
    })
}
