//! Runs that are open although no lock refers to them.

use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
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
        Ok(Finding::none_or(cancelled, "every open run is its lock's", |count| {
            format!("{count} open runs that no lock knew of were cancelled")
        }))
    })
}
