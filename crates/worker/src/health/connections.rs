//! Check: Postgres has free connections.

use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let found = monitor.store.connections().await?;
        let config = monitor.config.servers;
        let percent = found.taken * 100 / found.most.max(1);
        let summary = format!("{} of {} are in use", found.taken, found.most);
        let advice = "raise max_connections, or lower orchestrator.worker.database_connections";
        Ok(if percent >= config.connections_red_percent {
            Finding::red(format!("{summary}: {advice}"))
        } else if percent >= config.connections_warn_percent {
            Finding::warn(format!("{summary}: {advice}"))
        } else {
            Finding::ok(summary)
        })
    })
}
