//! Repairs that delete what is old: tasks, idempotency keys, counts of messages of
//! agents, events, history, model calls and records of the audit log.

use std::collections::BTreeMap;

use houston_store::health::retention::Aged;
use serde::{Deserialize, Serialize};

use super::config::seconds;
use super::{Checked, Finding, Monitor, Span};

/// `[requests]`: how long idempotency keys and the audit log are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestConfig {
    /// Seconds from the first use of a key.
    pub idempotency_key_s: u64,
    /// Seconds for which records of the audit log are kept; 0: for ever.
    pub audit_s: u64,
}

/// `[retention]`: days for which things are stored; 0: for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionConfig {
    /// Events, since their run ended.
    pub events_days: u32,
    /// History, since its session was completed.
    pub history_days: u32,
    /// Model calls, since their run ended.
    pub model_calls_days: u32,
    /// What is different for a kind of agentable.
    #[serde(default)]
    pub kinds: BTreeMap<String, KindRetention>,
}

/// `[retention.kinds.<kind>]`: other numbers of days for this kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRetention {
    /// Instead of the one for all kinds.
    pub events_days: Option<u32>,
    /// Instead of the one for all kinds.
    pub history_days: Option<u32>,
    /// Instead of the one for all kinds.
    pub model_calls_days: Option<u32>,
}

impl RetentionConfig {
    /// The days for which a kind's `what` are stored; 0: for ever.
    pub fn days(&self, what: Aged, kind: &str) -> u32 {
        let own = self.kinds.get(kind).copied().unwrap_or_default();
        match what {
            Aged::Events => own.events_days.unwrap_or(self.events_days),
            Aged::History => own.history_days.unwrap_or(self.history_days),
            Aged::ModelCalls => own.model_calls_days.unwrap_or(self.model_calls_days),
        }
    }
}

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
pub(super) async fn finished_tasks(monitor: &Monitor) -> Checked {
    let after = seconds(monitor.config.runs.ended_task_s);
    let (tasks, batch) = (&monitor.kinds.tasks, monitor.config.tick.batch.min(TASK_BATCH));
    let delete = |batch| async move { Ok(monitor.store.delete_finished(tasks, after, batch).await? as u64) };
    let deleted = monitor.repeat(batch, delete).await?;
    Ok(Finding::ok(format!(
        "{deleted} tasks that ended {} ago or earlier were deleted",
        Span(after.as_secs())
    )))
}

/// Repair: expired idempotency keys are deleted, and so are rate limits of which nothing is used and old answers of context
/// providers.
pub(super) async fn idempotency_keys(monitor: &Monitor) -> Checked {
    let after_s = monitor.config.requests.idempotency_key_s;
    let batch = monitor.config.tick.batch * BATCH_FACTOR;
    let delete = |batch| monitor.store.delete_idempotency_keys(seconds(after_s), batch);
    let deleted = monitor.repeat(batch, delete).await?;
    monitor.store.forget_rates(batch).await?;
    monitor.store.context_cache().forget_old(monitor.config.tick.batch).await?;
    Ok(Finding::ok(format!("{deleted} idempotency keys older than {} were deleted", Span(after_s))))
}

/// Repair: what was noted of messages that agents posted, and of conversations that they made, is deleted once it counts
/// against no limit any more.
pub(super) async fn agent_messages(monitor: &Monitor) -> Checked {
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
}

/// Repair: events, history and model calls are deleted when they are as old as `[retention]` says, records of the audit log when
/// they are as old as `requests.audit_s`.
pub(super) async fn retention(monitor: &Monitor) -> Checked {
    let mut deleted = Vec::new();
    if monitor.config.requests.audit_s > 0 {
        let after = seconds(monitor.config.requests.audit_s);
        let batch = monitor.config.tick.batch * BATCH_FACTOR;
        let records = monitor.repeat(batch, |batch| monitor.store.forget_records(after, batch)).await?;
        deleted.push(format!("{records} records of the audit log"));
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
    Ok(match configured.find(|kind| monitor.kinds.urgencies.keys().all(|name| name != *kind)) {
        Some(kind) => Finding::warn(format!(
            "`retention.kinds.{kind}` of jobs/health_monitor.toml names no kind of jobs/agents; {detail}"
        )),
        None => Finding::ok(detail),
    })
}

/// The kinds of which something is deleted, by the days for which it is stored.
fn ages(monitor: &Monitor, what: Aged) -> BTreeMap<u32, Vec<String>> {
    let mut ages: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for kind in monitor.kinds.urgencies.keys() {
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
