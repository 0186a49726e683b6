//! Check and repair: work that waits although a worker could take it gets another hint. Work of a paused lane is not late.

use super::config::seconds;
use super::span::Span;
use super::{CheckFuture, Finding, Monitor};

pub(super) fn check(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let config = monitor.config.work;
        let forgotten = monitor.sweep(|batch| monitor.store.wake_forgotten(batch)).await?;
        let paused = monitor.store.paused_lanes().await?;
        let lanes = monitor.store.lane_services().await?;
        let mut late = monitor.store.late(seconds(config.late_s), monitor.config.tick.batch).await?;
        let late_s = i64::try_from(config.late_s).unwrap_or(i64::MAX);
        late.retain_mut(|late| {
            let lane = lanes.of(monitor.kinds.lane(&late.due.kind).as_str());
            // That no worker is there makes work late, too: what is said about it is how many there are.
            let since_resumed =
                lane.resumed_at.map_or(i64::MAX, |resumed| (lane.now - resumed).num_seconds());
            late.waited_s = late.waited_s.min(since_resumed);
            !lane.is_paused && late.waited_s >= late_s
        });
        monitor.send_hints(forgotten.iter().chain(late.iter().map(|late| &late.due)));
        let longest_s = late.iter().map(|late| late.waited_s).max().unwrap_or(0);
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
