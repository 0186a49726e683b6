//! `/v1/queues`: the work in the lanes. A key with the scope `installation` sees that of all tenants, any other that of its own.

use axum::extract::Path;
use houston_domain::agentable::Urgency;
use houston_domain::lane_work::LaneWork;
use houston_protocol::queue::{QueueResponse, QueuesResponse, Scaling};
use houston_queue::Lane;
use houston_store::worker_list::RegisteredWorker;

use crate::request::missing_cells::Missing;
use crate::request::prelude::*;

endpoints! {
    get "/v1/queues" for TENANT.all(Scope::Operate) => list,
    "list_queues" in "operate": "List the lanes with the work that waits in each.",
    description = "For a key with the scope `installation` that of all tenants, else that of the key's tenant. Counted in \
                   Postgres, so that it is right even while Redis is away.",
    200 "The lanes, the most urgent first." [QueuesResponse];

    get "/v1/queues/{lane}/stats" for TENANT.all(Scope::Operate) => stats,
    "get_queue_stats" in "operate": "Get the work of one lane, for autoscalers.",
    description = "`scaling.pending_slots` and `scaling.wanted_slots` are what KEDA's metrics-api trigger reads as `valueLocation`.",
    params(("lane" = String, Path, description = "`interactive` or `background`.", example = "interactive")),
    200 "The work of the lane." [houston_protocol::queue::QueueResponse];

    post "/v1/queues/{lane}/pause" for INSTALLATION =>
        async |ctx: Ctx, Path(lane): Path<String>| set(&ctx, &lane, true).await.map(Json),
    "pause_queue" in "operate": "Pause a lane: workers claim nothing new of it.",
    description = "Runs that workers hold go on, and what is posted waits. Workers read it within a second. Idempotent. Needs the scope \
                   `installation` besides `operate`.",
    params(("lane" = String, Path, description = "`interactive` or `background`.", example = "background")),
    200 "The lane." [QueueResponse];

    post "/v1/queues/{lane}/resume" for INSTALLATION =>
        async |ctx: Ctx, Path(lane): Path<String>| set(&ctx, &lane, false).await.map(Json),
    "resume_queue" in "operate": "Let a paused lane go on.",
    description = "Idempotent. Needs the scope `installation` besides `operate`.",
    params(("lane" = String, Path, description = "`interactive` or `background`.", example = "background")),
    200 "The lane." [QueueResponse];
}

/// The lanes in which agentables wait, the most urgent first.
pub(crate) const LANES: [Urgency; 2] = [Urgency::Interactive, Urgency::Background];

async fn list(ctx: Ctx) -> Result<impl IntoResponse> {
    let (missing, data) = queues(&ctx, &LANES).await?;
    Ok((missing, Json(QueuesResponse { data })))
}

async fn stats(ctx: Ctx, Path(lane): Path<String>) -> Result<impl IntoResponse> {
    let lane = lane_named(&lane)?;
    let (missing, mut lanes) = queues(&ctx, &[lane]).await?;
    let lane = lanes.pop().ok_or(ApiError::NotFound("lane"))?;
    Ok((missing, Json(lane)))
}

async fn set(ctx: &Ctx, lane: &str, is_paused: bool) -> Result<QueueResponse> {
    let lane = lane_named(lane)?;
    for cell in ctx.all_cells() {
        cell.api_store().set_lane_paused(Lane::from(lane).as_str(), is_paused).await?;
    }
    queues(ctx, &[lane]).await?.1.pop().ok_or(ApiError::NotFound("lane"))
}

/// The work of lanes, over all cells.
pub(crate) struct Works {
    /// In the order of the lanes.
    pub(crate) lanes: Vec<LaneWork>,
    /// None, unless the work is that of all tenants.
    pub(crate) workers: Vec<RegisteredWorker>,
    /// The cells that are away.
    pub(crate) missing: Missing,
}

/// The work of these lanes: `whole` is that of all tenants, with the workers.
pub(crate) async fn works(ctx: &Ctx, whole: bool, lanes: &[Urgency]) -> Result<Works> {
    let mut works = vec![LaneWork::default(); lanes.len()];
    let mut workers = Vec::new();
    let ask = |cell: Arc<App>| async move {
        if !whole {
            return Ok((cell.store(ctx.caller).work().await?, Vec::new()));
        }
        let store = cell.api_store();
        let (work, workers) = tokio::try_join!(store.work(), store.list_workers())?;
        Ok((work, workers))
    };
    let (found, missing) = across(ctx, ask).await?;
    for (work, of_cell) in found {
        for (sum, lane) in works.iter_mut().zip(lanes) {
            let urgency_of = |kind: &str| ctx.state.agent_types.get(kind).map(|kind| kind.urgency);
            *sum = sum.with(LaneWork::of(*lane, &work.kinds, urgency_of, work.at));
        }
        // Each process has a worker in every cell, and they share its slots: those of one cell are all.
        if workers.is_empty() {
            workers = of_cell;
        }
    }
    Ok(Works { lanes: works, workers, missing })
}

async fn queues(ctx: &Ctx, lanes: &[Urgency]) -> Result<(Missing, Vec<QueueResponse>)> {
    let whole = ctx.caller.operates_installation();
    let ask = |cell: Arc<App>| async move { Ok(cell.api_store().paused_lanes().await?) };
    let (Works { lanes: works, workers, missing }, (paused, _)) =
        tokio::try_join!(works(ctx, whole, lanes), across(ctx, ask))?;
    let show = |(work, lane): (LaneWork, &Urgency)| {
        let name = Lane::from(*lane).as_str();
        // As long as one cell does not know of a pause, the lane is not paused.
        let has = |paused: &Vec<String>| paused.iter().any(|of| of == name);
        let paused = !paused.is_empty() && paused.iter().all(has);
        let pending_slots = if paused { 0 } else { work.claimable };
        QueueResponse {
            lane: name.to_owned(),
            of: if whole { "installation" } else { "tenant" }.to_owned(),
            depth: work.queued,
            oldest_age_s: work.oldest_age_s,
            running: work.running,
            orphaned: work.orphaned,
            retrying: work.retrying,
            put_off: work.put_off,
            waiting: work.asking,
            slots: whole.then(|| slots(&workers, *lane)),
            paused,
            capped: work.is_capped,
            scaling: Scaling { pending_slots, wanted_slots: work.running + pending_slots },
        }
    };
    Ok((missing, works.into_iter().zip(lanes).map(show).collect()))
}

/// The lane of this name.
fn lane_named(name: &str) -> Result<Urgency> {
    let found = LANES.into_iter().find(|lane| Lane::from(*lane).as_str() == name);
    found.ok_or(ApiError::NotFound("lane"))
}

/// The slots for a lane of workers that claim.
pub(crate) fn slots(workers: &[RegisteredWorker], lane: Urgency) -> i64 {
    let slots_of = |worker: &RegisteredWorker| match lane {
        Urgency::Interactive => worker.slots.total,
        Urgency::Background => worker.slots.background,
    };
    workers.iter().filter(|worker| worker.claims()).filter_map(slots_of).map(i64::from).sum()
}
