//! Repairs that delete what is old: tasks, idempotency keys, counts of messages of
//! agents, events, history, model calls and records of the audit log.

use std::collections::BTreeMap;

use houston_store::health::retention::Aged;

use super::config::seconds;
use super::{CheckFuture, Finding, Monitor, Span};

const DAY_S: u64 = 86_400;
/// Tasks one transaction deletes. Each has rows in nine tables.
const TASK_BATCH: i64 = 100;
/// Batches of idempotency keys and of retention are larger than those of other checks by this factor: rows are small, no other
/// rows depend on them, and a busy installation creates hundreds a second.
const BATCH_FACTOR: i64 = 10;
/// What is deleted, and its name in the result.
const ALL: [(Aged, &str); 3] =
    [(Aged::Events, "events"), (Aged::History, "entries of histories"), (Aged::ModelCalls, "model calls")];

/// Repair: tasks that ended long ago are deleted.
pub(super) fn finished_tasks(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after = seconds(monitor.config.runs.ended_task_s);
        let (tasks, batch) = (monitor.kinds.tasks(), monitor.config.tick.batch.min(TASK_BATCH));
        let mut deleted = 0;
        for _ in 0..monitor.config.tick.batches {
            let some = monitor.store.delete_finished(tasks, after, batch).await?;
            deleted += some;
            if i64::try_from(some).is_ok_and(|some| some < batch) {
                break;
            }
        }
        Ok(Finding::ok(format!(
            "{deleted} tasks that ended {} ago or earlier were deleted",
            Span(after.as_secs())
        )))
    })
}

/// Repair: expired idempotency keys are deleted, and so are rate limits of which nothing is used and old answers of context
/// providers.
pub(super) fn idempotency_keys(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.requests.idempotency_key_s;
        let batch = monitor.config.tick.batch * BATCH_FACTOR;
        let mut deleted = 0;
        for _ in 0..monitor.config.tick.batches {
            let some = monitor.store.delete_idempotency_keys(seconds(after_s), batch).await?;
            deleted += some;
            if i64::try_from(some).is_ok_and(|some| some < batch) {
                break;
            }
        }
        monitor.store.forget_rates(batch).await?;
        monitor.store.context_cache().forget_old(monitor.config.tick.batch).await?;
        Ok(Finding::ok(format!("{deleted} idempotency keys older than {} were deleted", Span(after_s))))
    })
}

/// Repair: what was noted of messages that agents posted, and of conversations that they made, is deleted once it counts
/// against no limit any more.
pub(super) fn agent_messages(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let after_s = monitor.config.runs.agent_message_s;
        let batch = monitor.config.tick.batch;
        let mut deleted = (0, 0);
        for _ in 0..monitor.config.tick.batches {
            let (posted, made) = monitor.store.delete_reach_counts(seconds(after_s), batch).await?;
            deleted = (deleted.0 + posted, deleted.1 + made);
            if [posted, made].into_iter().all(|some| i64::try_from(some).is_ok_and(|some| some < batch)) {
                break;
            }
        }
        let (posted, made) = deleted;
        let older = Span(after_s);
        Ok(Finding::ok(format!(
            "the counts of {posted} posts and {made} new goals older than {older} were deleted"
        )))
    })
}

/// Repair: events, history and model calls are deleted when they are as old as `[retention]` says, records of the audit log when
/// they are as old as `requests.audit_s`.
pub(super) fn retention(monitor: &Monitor) -> CheckFuture<'_> {
    Box::pin(async move {
        let mut deleted = Vec::new();
        if monitor.config.requests.audit_s > 0 {
            deleted.push(format!("{} records of the audit log", forget_records(monitor).await?));
        }
        for (what, name) in ALL {
            let ages = ages(monitor, what);
            if ages.is_empty() {
                continue;
            }
            let mut rows = 0;
            for (days, kinds) in ages {
                rows += trim(monitor, what, &kinds, days).await?;
            }
            deleted.push(format!("{rows} {name}"));
        }
        let detail = match deleted.is_empty() {
            true => "everything is kept (`retention` in jobs/health_monitor.toml)".to_owned(),
            false => format!("deleted by age: {}", deleted.join(", ")),
        };
        let mut configured = monitor.config.retention.kinds.keys();
        Ok(match configured.find(|kind| monitor.kinds.names().all(|name| name != *kind)) {
            Some(kind) => Finding::warn(format!(
                "`retention.kinds.{kind}` of jobs/health_monitor.toml names no kind of jobs/agents; {detail}"
            )),
            None => Finding::ok(detail),
        })
    })
}

/// Deletes old records of the audit log batch by batch. Returns their number.
async fn forget_records(monitor: &Monitor) -> houston_store::Result<u64> {
    let (tick, after) = (monitor.config.tick, seconds(monitor.config.requests.audit_s));
    let batch = tick.batch * BATCH_FACTOR;
    let mut rows = 0;
    for _ in 0..tick.batches {
        let some = monitor.store.forget_records(after, batch).await?;
        rows += some;
        if i64::try_from(some).is_ok_and(|some| some < batch) {
            break;
        }
    }
    Ok(rows)
}

/// The kinds of which something is deleted, by the days for which it is stored.
fn ages(monitor: &Monitor, what: Aged) -> BTreeMap<u32, Vec<String>> {
    let mut ages: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for kind in monitor.kinds.names() {
        let days = monitor.config.retention.days(what, kind);
        if days > 0 {
            ages.entry(days).or_default().push(kind.clone());
        }
    }
    ages
}

/// Deletes batch by batch. Returns the number of rows.
async fn trim(monitor: &Monitor, what: Aged, kinds: &[String], days: u32) -> houston_store::Result<u64> {
    let (tick, after) = (monitor.config.tick, seconds(u64::from(days) * DAY_S));
    let mut rows = 0;
    for _ in 0..tick.batches {
        let some = monitor.store.trim(what, kinds, after, tick.batch * BATCH_FACTOR).await?;
        rows += some.rows;
        if some.is_done {
            break;
        }
    }
    Ok(rows)
}
