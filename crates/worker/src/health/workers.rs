//! Check: there are living workers.

use super::config::seconds;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let found = monitor.store.workers(seconds(monitor.config.leases.red_s)).await?;
        Ok(match (found.alive, found.work_is_due) {
            (0, true) => Finding::red("work is due and no worker is alive: start one with `houston work`"),
            (0, false) => Finding::warn("no worker is alive; no work is waiting"),
            (alive, _) if found.silent == alive => Finding::warn(format!(
                "{alive} alive by their leases, and none has renewed its lease in time: they may be dead; what they hold is \
                 taken over when the leases are over"
            )),
            (alive, _) => Finding::ok(format!("{alive} alive")),
        })
    })
}
