//! `houston monitor`: runs every check of the health monitor once, outside of the workers.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use houston_domain::clock::{Clock, SystemClock};
use houston_domain::health::{Check, HealthStatus, worst};
use houston_domain::id::Ids;
use houston_queue::{DEFAULT_PREFIX, DeltaBus, HintSender, Redis};
use houston_store::Store;
use houston_worker::{Kinds, Monitor as HealthMonitor};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agentable::{at, print_table};
use super::{Context, Failure, Result, audit, runtime};
use crate::config::{Kind, Loaded};
use crate::connect;
use crate::output::{print_json, print_stderr};

/// The most passes of `--now`, and the pause between two.
const PASSES: u32 = 5;
const BETWEEN_PASSES: Duration = Duration::from_secs(1);

/// Check the installation's health once and repair what can be repaired.
///
/// Exits 0 when every check is ok or warn, 1 when one is red, 2 when the checks could not run.
#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// Repeat the checks each second until nothing changes any more, at most five times
    #[arg(long)]
    now: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Monitor {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let settings = &context.loaded.settings;
        let addresses = connect::existing(settings, &context.folder, true)?;
        runtime()?.block_on(async {
            // No waiting for Postgres: that it is unreachable is what a monitor must report.
            let stores = connect::reach_all(settings, &addresses).await?;
            let started = tokio::time::Instant::now();
            let passes = if self.now { PASSES } else { 1 };
            let (mut checks, mut earlier) = (Vec::new(), Vec::new());
            for ((name, cell), store) in addresses.cells.named().zip(stores.iter()) {
                let redis_url = Some(cell.redis_url.as_str()).filter(|url| !url.is_empty());
                let (last, others) = check(&context.loaded, store.clone(), redis_url, passes).await?;
                let of_cell = |mut check: Check| {
                    if stores.count() > 1 {
                        check.detail = format!("cell {name}: {}", check.detail);
                    }
                    check
                };
                checks.extend(last.into_iter().map(of_cell));
                earlier.extend(others.into_iter().map(of_cell));
            }
            if self.now {
                audit::record(stores.home(), None, "monitor_now", "installation".to_owned()).await;
            }
            if self.json {
                print_json(&json(&checks, &earlier));
            } else {
                show(&checks);
                earlier
                    .iter()
                    .for_each(|found| print_stderr(&format!("earlier: {}: {}", found.id, found.detail)));
                let took = started.elapsed().as_millis();
                print_stderr(&format!("health: {}, checked in {took} ms", worst(&checks).as_str()));
            }
            Ok(if worst(&checks) == HealthStatus::Red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        })
    }
}

/// Runs the checks, and waits until their hints are sent. Returns the results of the last pass, and those of earlier passes that
/// differ.
async fn check(
    loaded: &Loaded,
    store: Store,
    redis_url: Option<&str>,
    passes: u32,
) -> Result<(Vec<Check>, Vec<Check>)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let redis = redis_url
        .map(|url| Redis::open(url, DEFAULT_PREFIX, Arc::clone(&clock)))
        .transpose()
        .map_err(Failure::usage)?;
    let (tracker, gone) = (TaskTracker::new(), CancellationToken::new());
    let ids = Ids::new(Arc::clone(&clock));
    let orchestrator = &loaded.settings.orchestrator;
    let monitor = HealthMonitor {
        bus: DeltaBus::start(redis.clone(), ids.next(), &tracker, gone.clone()),
        hints: HintSender::start(redis.clone(), &tracker, gone.clone()),
        redis,
        clock,
        kinds: Kinds::of(loaded.kinds.values().map(|Kind { agent_type, .. }| {
            let most = orchestrator.limits.with(agent_type.limits).max_duration_s;
            (agent_type, most + orchestrator.watchdog.grace_s)
        })),
        config: loaded.settings.health_monitor.clone(),
        store: store.runs().clone(),
    };
    let result = run_passes(&monitor, passes).await;
    gone.cancel();
    tracker.close();
    let _ = tokio::time::timeout(Duration::from_secs(3), tracker.wait()).await;
    match result {
        Ok(result) => Ok(result),
        // The results cannot be stored in an outdated schema: report the schema.
        Err(error) => match monitor.store.check_schema().await {
            Err(schema) => Err(Failure::Other(schema.into())),
            Ok(()) => Err(Failure::Usage(anyhow!("the results could not be stored: {error}"))),
        },
    }
}

/// Repeats the checks until two passes agree, at most `passes` times: workers pick up what one pass repaired, and the
/// next pass sees the result.
async fn run_passes(monitor: &HealthMonitor, passes: u32) -> houston_store::Result<(Vec<Check>, Vec<Check>)> {
    let mut checks = monitor.run_checks().await?;
    let mut earlier = Vec::new();
    for _ in 1..passes {
        tokio::time::sleep(BETWEEN_PASSES).await;
        let next = monitor.run_checks().await?;
        let summary = |checks: &[Check]| -> Vec<String> {
            checks.iter().map(|check| format!("{} {}", check.status.as_str(), check.id)).collect()
        };
        let settled = summary(&checks) == summary(&next);
        earlier.extend(std::mem::replace(&mut checks, next));
        if settled {
            break;
        }
    }
    let is_last = |found: &Check| {
        checks
            .iter()
            .any(|last| (&last.id, last.status, &last.detail) == (&found.id, found.status, &found.detail))
    };
    earlier.retain(|found| !is_last(found));
    Ok((checks, earlier))
}

/// Like the body of `GET /v1/health`, with the details, which only operators may see.
fn json(checks: &[Check], earlier: &[Check]) -> Value {
    let list = |checks: &[Check]| -> Vec<Value> {
        let one = |check: &Check| {
            serde_json::json!({
                "id": check.id, "status": check.status, "detail": check.detail, "since": at(check.since),
            })
        };
        checks.iter().map(one).collect()
    };
    serde_json::json!({"status": worst(checks), "checks": list(checks), "earlier": list(earlier)})
}

/// Prints a table with the worst check last, next to the prompt.
fn show(checks: &[Check]) {
    let mut sorted: Vec<&Check> = checks.iter().collect();
    sorted.sort_by_key(|check| check.status);
    let row = |check: &&Check| {
        [check.status.as_str().to_owned(), check.id.clone(), at(check.since), check.detail.clone()]
    };
    print_table(["STATUS", "CHECK", "SINCE", "DETAIL"], sorted.iter().map(row));
}
