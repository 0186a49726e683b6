//! Check and repair: open runs of conversational kinds that no worker takes although workers run are ended with an error
//! message.

use houston_domain::intervention::Intervention;

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.stale_goal_s;
        let lanes = monitor.store.lane_services().await?;
        let (kinds, others) = monitor.kinds.served_or_unknown(&lanes, seconds(after_s));
        let reason = Intervention::Stale;
        let stale = monitor
            .sweep(|batch| monitor.store.stop_stale(&kinds, others, seconds(after_s), reason, batch))
            .await?;
        monitor.send_hints(&stale);
        Ok(Finding::none_or(stale.len(), "no open run of a goal is stale", |count| {
            format!(
                "{count} goals did not change for more than {}: their runs are being ended",
                Span(after_s)
            )
        }))
    })
}
