//! Whether anybody works.

use super::config::seconds;
use super::{Finding, Looked, Monitor};

pub(super) fn look(monitor: &Monitor) -> Looked<'_> {
    Box::pin(async move {
        let found = monitor.store.workers(seconds(monitor.config.leases.red_s)).await?;
        Ok(match (found.alive, found.work_is_due) {
            (0, true) => Finding::red("work is due and no worker is alive: start one with `houston work`"),
            (0, false) => Finding::warn("no worker is alive; nothing waits for one"),
            (alive, _) => Finding::ok(format!("{alive} alive")),
        })
    })
}
