//! Check and repair: webhooks whose receivers let too many events wait are switched off.

use houston_domain::webhook::MAX_PENDING;

use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let count = monitor.store.switch_off_backlogged_webhooks(monitor.clock.now()).await?;
        Ok(Finding::none_or(count, "no webhook has a long backlog", |count| {
            format!(
                "{count} webhooks were switched off, because more than {MAX_PENDING} events waited for their receivers; a replay \
                 delivers what they miss"
            )
        }))
    })
}
