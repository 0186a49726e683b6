//! Checks of what waits: work for workers, sessions for their summaries, events for the receivers of webhooks.

use houston_domain::webhook::MAX_PENDING;
use serde::{Deserialize, Serialize};

use super::config::seconds;
use super::{Checked, Finding, Monitor, Span};

/// `[work]`: time limits of waiting work in seconds, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkAges {
    /// Seconds until another hint is sent.
    pub late_s: u64,
    /// Seconds until the check is red.
    pub red_s: u64,
    /// Waiting agentables from which the queue counts as long.
    pub long_queue: i64,
}

/// `[sessions]`: how long a closed session may wait for its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionAges {
    /// Seconds until the check warns.
    pub late_s: u64,
    /// Seconds until the check is red.
    pub red_s: u64,
    /// Attempts at a summary after which its extract stays.
    pub attempts: i32,
}

/// Check and repair: work that waits although a worker could take it gets another hint. Work of a paused lane is not late.
pub(super) async fn overdue_work(monitor: &Monitor) -> Checked {
    let config = monitor.config.work;
    let forgotten = monitor.sweep(|batch| monitor.store.wake_forgotten(batch)).await?;
    let paused = monitor.store.paused_lanes().await?;
    let lanes = monitor.store.lane_services().await?;
    let mut late = monitor.store.late(seconds(config.late_s), monitor.config.tick.batch).await?;
    let late_s = i64::try_from(config.late_s).unwrap_or(i64::MAX);
    late.retain_mut(|late| {
        let lane = lanes.of(monitor.kinds.lane(&late.due.kind).as_str());
        // That no worker is there makes work late, too: what is said about it is how many there are.
        let since_resumed = lane.resumed_at.map_or(i64::MAX, |resumed| (lane.now - resumed).num_seconds());
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
}

/// Check: the number of waiting agentables.
pub(super) async fn queue_depth(monitor: &Monitor) -> Checked {
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
}

/// Check and repair: closed sessions without a summary are reported; those with too many attempts keep their extract.
pub(super) async fn session_summaries(monitor: &Monitor) -> Checked {
    let config = monitor.config.sessions;
    let settled = monitor.sweep(|batch| monitor.store.accept_extracts(config.attempts, batch)).await?;
    let late = monitor.store.late_summaries(seconds(config.late_s)).await?;
    let summary = format!(
        "{} closed sessions have waited for their summary for more than {}, the longest for {}",
        late.sessions,
        Span(config.late_s),
        Span(u64::try_from(late.waited_s).unwrap_or(0))
    );
    Ok(if u64::try_from(late.waited_s).is_ok_and(|waited_s| waited_s > config.red_s) {
        Finding::red(format!(
            "{summary}: do workers run, and does the model of the use case `summaries` answer?"
        ))
    } else if late.sessions > 0 {
        Finding::warn(format!("{summary}: the workers write them as soon as they can"))
    } else {
        Finding::none_or(settled.len(), "no closed session waits for its summary", |count| {
            let attempts = config.attempts;
            format!("{count} summaries were begun {attempts} times and never written: their extracts stay")
        })
    })
}

/// Check and repair: webhooks whose receivers let too many events wait are switched off.
pub(super) async fn webhook_backlogs(monitor: &Monitor) -> Checked {
    let count = monitor.store.switch_off_backlogged_webhooks(monitor.clock.now()).await?;
    Ok(Finding::none_or(count, "no webhook has a long backlog", |count| {
        format!(
            "{count} webhooks were switched off, because more than {MAX_PENDING} events waited for their receivers; a replay \
             delivers what they miss"
        )
    }))
}
