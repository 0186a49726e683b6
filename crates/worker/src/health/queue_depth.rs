//! Check: the number of waiting agentables.

use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let depth = monitor.store.depth().await?;
        let oldest = depth.oldest.map_or_else(String::new, |oldest| {
            let oldest = oldest.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            format!(", the oldest open run is from {oldest}")
        });
        let summary = format!("{} agentables, {} unread messages{oldest}", depth.agentables, depth.messages);
        Ok(if depth.agentables > monitor.config.work.long_queue {
            Finding::warn(format!("{summary}: start more workers"))
        } else {
            Finding::ok(summary)
        })
    })
}
