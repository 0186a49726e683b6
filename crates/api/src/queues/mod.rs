//! `/v1/queues`: the work in the lanes. A key with the scope `installation` sees that of all tenants, any other that of its own.

pub(crate) mod list;
pub(crate) mod pause;
pub(crate) mod stats;

use std::sync::Arc;

use houston_domain::agentable::Urgency;
use houston_domain::lane_work::LaneWork;
use houston_protocol::queue::{QueueResponse, Scaling};
use houston_queue::Lane;
use houston_store::worker_list::RegisteredWorker;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::missing_cells::{Missing, across};
use crate::state::App;

/// The lanes in which agentables wait, the most urgent first.
pub(crate) const LANES: [Urgency; 2] = [Urgency::Interactive, Urgency::Background];

/// The work of these lanes, over all cells, and the cells that are away: `whole` is that of all tenants, with the workers.
pub(crate) async fn works(
    app: &Arc<App>,
    caller: Caller,
    whole: bool,
    lanes: &[Urgency],
) -> Result<(Vec<LaneWork>, Vec<RegisteredWorker>, Missing), ApiError> {
    let mut works = vec![LaneWork::default(); lanes.len()];
    let mut workers = Vec::new();
    let ask = |cell: Arc<App>| async move {
        if !whole {
            return Ok((cell.store(caller).work().await?, Vec::new()));
        }
        let store = cell.api_store();
        let (work, workers) = tokio::try_join!(store.work(), store.list_workers())?;
        Ok((work, workers))
    };
    let (found, missing) = across(app, ask).await?;
    for (work, of_cell) in found {
        for (sum, lane) in works.iter_mut().zip(lanes) {
            let urgency_of = |kind: &str| app.state.agent_types.get(kind).map(|kind| kind.urgency);
            *sum = sum.with(LaneWork::of(*lane, &work.kinds, urgency_of, work.at));
        }
        // Each process has a worker in every cell, and they share its slots: those of one cell are all.
        if workers.is_empty() {
            workers = of_cell;
        }
    }
    Ok((works, workers, missing))
}

async fn queues(
    app: &Arc<App>,
    caller: Caller,
    lanes: &[Urgency],
) -> Result<(Missing, Vec<QueueResponse>), ApiError> {
    let whole = caller.operates_installation();
    let ask = |cell: Arc<App>| async move { Ok(cell.api_store().paused_lanes().await?) };
    let ((works, workers, missing), (paused, _)) =
        tokio::try_join!(works(app, caller, whole, lanes), across(app, ask))?;
    let paused: Vec<String> = paused.into_iter().flatten().collect();
    let show = |(work, lane): (LaneWork, &Urgency)| {
        let is_paused = paused.iter().any(|name| name == Lane::from(*lane).as_str());
        response(*lane, whole, (work, is_paused), whole.then(|| slots(&workers, *lane)))
    };
    Ok((missing, works.into_iter().zip(lanes).map(show).collect()))
}

/// The lane of this name.
fn lane_named(name: &str) -> Result<Urgency, ApiError> {
    let found = LANES.into_iter().find(|lane| Lane::from(*lane).as_str() == name);
    found.ok_or(ApiError::NotFound { what: "lane" })
}

/// The slots for a lane of workers that claim.
pub(crate) fn slots(workers: &[RegisteredWorker], lane: Urgency) -> i64 {
    let slots_of = |worker: &RegisteredWorker| match lane {
        Urgency::Interactive => worker.slots,
        Urgency::Background => worker.background_slots,
    };
    workers.iter().filter(|worker| worker.claims()).filter_map(slots_of).map(i64::from).sum()
}

fn response(
    lane: Urgency,
    whole: bool,
    (work, paused): (LaneWork, bool),
    slots: Option<i64>,
) -> QueueResponse {
    let pending_slots = if paused { 0 } else { work.claimable };
    QueueResponse {
        lane: Lane::from(lane).as_str().to_owned(),
        of: if whole { "installation" } else { "tenant" }.to_owned(),
        depth: work.queued,
        oldest_age_s: work.oldest_age_s,
        running: work.running,
        orphaned: work.orphaned,
        retrying: work.retrying,
        put_off: work.put_off,
        waiting: work.asking,
        slots,
        paused,
        capped: work.is_capped,
        scaling: Scaling { pending_slots, wanted_slots: work.running + pending_slots },
    }
}
