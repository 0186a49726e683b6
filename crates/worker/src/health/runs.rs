//! Checks of runs that do not go on.

use houston_domain::intervention::Intervention;
use houston_domain::setting::within;
use serde::{Deserialize, Serialize};

use super::config::seconds;
use super::{Checked, Finding, Monitor, Span};

/// `[runs]`: time limits of runs and tasks, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAges {
    /// An attempt whose worker is alive.
    pub stuck_s: u64,
    /// An open task without a worker and without any change.
    pub stale_task_s: u64,
    /// The same for a goal or user agent.
    pub stale_goal_s: u64,
    /// A plan that waits for nothing that can come.
    pub stalled_plan_s: u64,
    /// A task that waits for a retry.
    pub paused_task_s: u64,
    /// A task after its end, until it is deleted.
    pub ended_task_s: u64,
    /// What counts against the limits of agents that post to other conversations or make some, until it is deleted.
    #[serde(deserialize_with = "within::<3600, { u64::MAX }, _, _>")]
    pub agent_message_s: u64,
}

/// Check and repair: open runs to which no lock refers are cancelled.
pub(super) async fn zombie_runs(monitor: &Monitor) -> Checked {
    let batch = monitor.config.tick.batch;
    let cancelled = monitor.repeat(batch, |batch| monitor.store.cancel_zombies(batch)).await?;
    let cancelled = usize::try_from(cancelled).unwrap_or(usize::MAX);
    Ok(Finding::none_or(cancelled, "every open run has a lock", |count| {
        format!("{count} open runs without a lock were cancelled")
    }))
}

/// Check and repair: attempts that run for too long are ended, although their worker's lease is alive.
pub(super) async fn stuck_runs(monitor: &Monitor) -> Checked {
    // At least a minute more than every agent type's own limit, so that the watchdog acts first.
    let after_s = monitor.config.runs.stuck_s.max(monitor.kinds.longest_s + 60);
    let stopped = monitor.sweep(|batch| monitor.store.stop_stuck(seconds(after_s), batch)).await?;
    monitor.drop_stuck(&stopped);
    Ok(Finding::none_or(stopped.len(), "no attempt runs for too long", |count| {
        format!("{count} attempts ran for more than {}: their runs are being ended", Span(after_s))
    }))
}

/// Check and repair: tasks whose next attempt has been due for more than a day are given up.
pub(super) async fn paused_tasks(monitor: &Monitor) -> Checked {
    let after_s = monitor.config.runs.paused_task_s;
    let lanes = monitor.store.lane_services().await?;
    let tasks = monitor.kinds.served(true, &lanes, seconds(after_s));
    let expired = monitor.sweep(|batch| monitor.store.stop_expired(&tasks, seconds(after_s), batch)).await?;
    monitor.send_hints(&expired);
    let retries = monitor.store.retries().await?;
    let waiting =
        format!("{} runs wait for their next attempt, {} of them are due", retries.waiting, retries.due);
    Ok(Finding::none_or(expired.len(), &waiting, |count| {
        format!("{count} tasks were due for more than {} and are given up; {waiting}", Span(after_s))
    }))
}

/// Check and repair: open tasks that no worker takes although workers run are ended.
pub(super) async fn stale_tasks(monitor: &Monitor) -> Checked {
    let after_s = monitor.config.runs.stale_task_s;
    let lanes = monitor.store.lane_services().await?;
    let tasks = monitor.kinds.served(true, &lanes, seconds(after_s));
    let reason = Intervention::StaleTask;
    let stale = monitor
        .sweep(|batch| monitor.store.stop_stale(&tasks, false, seconds(after_s), reason, batch))
        .await?;
    monitor.send_hints(&stale);
    Ok(Finding::none_or(stale.len(), "no open task is stale", |count| {
        format!("{count} tasks did not change for more than {} and are ended as completed", Span(after_s))
    }))
}

/// Check and repair: open runs of conversational kinds that no worker takes although workers run are ended with an error
/// message.
pub(super) async fn stale_goals(monitor: &Monitor) -> Checked {
    let after_s = monitor.config.runs.stale_goal_s;
    let lanes = monitor.store.lane_services().await?;
    let (kinds, others) = monitor.kinds.served_or_unknown(&lanes, seconds(after_s));
    let reason = Intervention::Stale;
    let stale = monitor
        .sweep(|batch| monitor.store.stop_stale(&kinds, others, seconds(after_s), reason, batch))
        .await?;
    monitor.send_hints(&stale);
    Ok(Finding::none_or(stale.len(), "no open run of a goal is stale", |count| {
        format!("{count} goals did not change for more than {}: their runs are being ended", Span(after_s))
    }))
}

/// Check and repair: plans whose run waits for nothing that can come are woken.
pub(super) async fn stalled_plans(monitor: &Monitor) -> Checked {
    let after_s = monitor.config.runs.stalled_plan_s;
    let stalled = monitor.sweep(|batch| monitor.store.wake_stalled_plans(seconds(after_s), batch)).await?;
    monitor.send_hints(&stalled);
    Ok(Finding::none_or(stalled.len(), "no plan waits for nothing", |count| {
        format!(
            "{count} plans waited for more than {} for nothing that could come: they were woken",
            Span(after_s)
        )
    }))
}
