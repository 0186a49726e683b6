//! Leases of the dead: reaped, and what they held is free.

use super::config::seconds;
use super::span::Span;
use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let limit_s = monitor.config.leases.red_s;
        let overdue = monitor.store.workers(seconds(limit_s)).await?.overdue;
        let reaped = monitor.store.reap(&[]).await?.len();
        let released = monitor.sweep(|batch| monitor.store.release_dead(batch)).await?;
        monitor.ring(&released);
        let told = format!(
            "{reaped} leases that had run out, and {} locks of the dead, were released",
            released.len()
        );
        Ok(if overdue > 0 {
            Finding::red(format!(
                "{told}; {overdue} of the leases had been over for more than {}: no worker reaps",
                Span(limit_s)
            ))
        } else if reaped + released.len() > 0 {
            Finding::warn(told)
        } else {
            Finding::ok("every lock is held by the living")
        })
    })
}
