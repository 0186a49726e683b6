//! Checks of the work: what waits, who does it, and what an operator forgot.

use chrono::TimeDelta;
use houston_domain::lane_work::KindWork;
use houston_store::server_settings::LeftForOperators;
use houston_store::{Result, Store};

use super::finding::{Finding, ok, red, warn};

/// Work that waits longer than this is overdue.
const OVERDUE: TimeDelta = TimeDelta::seconds(60);

/// Lanes that are paused, workers, and work that waits.
pub(super) async fn checks(store: &Store) -> Vec<Finding> {
    let (lanes, work) = (paused(store).await, waiting(store).await);
    let failed = |error: houston_store::Error| red("work", error.to_string(), "read the log of Postgres");
    vec![lanes.unwrap_or_else(failed), work.unwrap_or_else(failed)]
}

async fn paused(store: &Store) -> Result<Finding> {
    let lanes = store.operator().paused_lanes().await?;
    Ok(match lanes.as_slice() {
        [] => ok("lanes", "none is paused"),
        lanes => {
            let todo: Vec<String> =
                lanes.iter().map(|lane| format!("houston queues resume {lane}")).collect();
            let detail = format!("paused: {}; what is posted there waits", lanes.join(", "));
            warn("lanes", detail, format!("let them go on: {}", todo.join("; ")))
        }
    })
}

async fn waiting(store: &Store) -> Result<Finding> {
    let work = store.operator().work().await?;
    let workers = store.operator().list_workers().await?;
    let claiming = workers.iter().filter(|worker| worker.claims()).count();
    let queued: i64 = work.kinds.iter().map(|kind| kind.queued).sum();
    let oldest = work.kinds.iter().filter_map(|kind: &KindWork| kind.oldest).min();
    let age = oldest.map_or_else(TimeDelta::zero, |oldest| work.at - oldest);
    let detail = format!(
        "{claiming} workers claim; {queued} agents wait, the oldest for {} s",
        age.num_seconds().max(0)
    );
    Ok(match (queued > 0 && age > OVERDUE, claiming) {
        (true, 0) => red("work", detail, "start a worker: houston work"),
        (true, _) => warn(
            "work",
            detail,
            "start more workers, or find out what holds them: houston queues, houston workers, houston why <id>",
        ),
        (false, _) => ok("work", detail),
    })
}

/// Deliveries that were given up, and receivers that Houston gave up.
pub(super) fn webhooks(left: &LeftForOperators) -> Finding {
    let LeftForOperators { dead_deliveries, webhooks_off, .. } = left;
    if *dead_deliveries == 0 && *webhooks_off == 0 {
        return ok("webhooks", "no delivery was given up");
    }
    warn(
        "webhooks",
        format!("{dead_deliveries} deliveries were given up; {webhooks_off} webhooks are switched off"),
        "mend the receiver (GET /v1/webhooks names it, and why it is off), switch it on with PATCH /v1/webhooks/{id}, and send \
         again what it missed: POST /v1/webhooks/{id}/replay",
    )
}
