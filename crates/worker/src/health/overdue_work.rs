//! Check and repair: work that waits although a worker could take it gets another hint. Work of a paused lane is not late.

use houston_store::health::waiting::LateAgentable;

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let config = monitor.config.work;
        let forgotten = monitor.sweep(|batch| monitor.store.wake_forgotten(batch)).await?;
        let paused = monitor.store.paused_lanes().await?;
        let mut late = monitor.store.late(seconds(config.late_s), monitor.config.tick.batch).await?;
        let is_paused = |late: &LateAgentable| {
            let lane = monitor.kinds.lane(&late.due.kind).as_str();
            paused.iter().any(|name| name == lane)
        };
        late.retain(|late| !is_paused(late));
        monitor.send_hints(forgotten.iter().chain(late.iter().map(|late| &late.due)));
        let longest_s = late.first().map_or(0, |late| late.waited_s);
        let summary = format!(
            "{} agentables have waited for a worker for more than {}, the longest for {}; hints were sent again",
            late.len(),
            Span(config.late_s),
            Span(u64::try_from(longest_s).unwrap_or(0))
        );
        Ok(if u64::try_from(longest_s).is_ok_and(|longest_s| longest_s > config.red_s) {
            Finding::red(format!("{summary}: are there enough workers?"))
        } else if !forgotten.is_empty() {
            Finding::warn(format!("{} open runs that no sweep would have found were woken", forgotten.len()))
        } else if !late.is_empty() {
            Finding::warn(summary)
        } else if !paused.is_empty() {
            let lanes = paused.join(", ");
            Finding::warn(format!("paused, until `houston queues resume <lane>`: {lanes}"))
        } else {
            Finding::ok("nothing waits for long")
        })
    })
}
