//! Check and repair: leases of dead workers are reaped and their locks released.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let limit_s = monitor.config.leases.red_s;
        let overdue = monitor.store.workers(seconds(limit_s)).await?.overdue;
        let reaped = monitor.store.reap(&[]).await?.len();
        let released = monitor.sweep(|batch| monitor.store.release_dead(batch)).await?;
        monitor.send_hints(&released);
        let summary =
            format!("{reaped} expired leases and {} locks of dead workers were released", released.len());
        Ok(if overdue > 0 {
            Finding::red(format!(
                "{summary}; {overdue} of the leases had been expired for more than {}: no worker reaps",
                Span(limit_s)
            ))
        } else if reaped + released.len() > 0 {
            Finding::warn(summary)
        } else {
            Finding::ok("every lock is held by a living worker")
        })
    })
}
