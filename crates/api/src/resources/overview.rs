//! `/v1/overview`: what an operator sees first, of an installation or of a tenant, in a few numbers.

use std::collections::BTreeMap;

use houston_domain::ended::EndedInHour;
use houston_domain::lane_work::LaneWork;
use houston_domain::scope::Scope;
use houston_protocol::overview::{OverviewResponse, WorkerCounts};
use houston_store::ended::Ended;
use houston_store::worker_list::RegisteredWorker;
use rust_decimal::Decimal;

use crate::caller::Caller;
use crate::request::prelude::*;
use crate::resources::queues::{LANES, Works, slots, works};

endpoints! {
    get "/v1/overview" for TENANT.all(Scope::Operate) => get,
    "get_overview" in "operate": "Get what an operator sees first: what waits, what runs, what failed.",
    description = "For a key with the scope `installation` of all tenants, else of the key's tenant. What has ended is at most 15 s old.",
    params(("of" = Option<String>, Query, description = "`tenant`: of the key's tenant also for a key with the scope `installation`.", example = "tenant")),
    200 "The numbers." [OverviewResponse];
}

/// Whose numbers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whose {
    of: Option<String>,
}

impl Whose {
    /// Whether those of all tenants.
    fn is_whole(&self, caller: Caller) -> Result<bool> {
        let may = caller.operates_installation();
        match self.of.as_deref() {
            None => Ok(may),
            Some("tenant") => Ok(false),
            Some("installation") => caller.needs(Scope::Installation).map(|()| true),
            Some(_) => Err(ApiError::parameter("of", "must be `tenant` or `installation`")),
        }
    }
}

async fn get(ctx: Ctx, Query(whose): Query<Whose>) -> Result<impl IntoResponse> {
    let whole = whose.is_whole(ctx.caller)?;
    let (Works { lanes, workers, missing }, ended) =
        tokio::try_join!(works(&ctx, whole, &LANES), ended(&ctx, whole))?;
    let work = lanes.into_iter().fold(LaneWork::default(), LaneWork::with);
    Ok((missing, Json(response(whole, work, &workers, &ended))))
}

fn response(whole: bool, work: LaneWork, workers: &[RegisteredWorker], all: &[Ended]) -> OverviewResponse {
    let is_capped = work.is_capped || all.iter().any(|ended| ended.is_capped);
    let cost_last_hour: Decimal = all.iter().map(|ended| ended.cost_of_hour).sum();
    let hours = hours(all);
    let sum = |of: fn(&EndedInHour) -> i64| hours.iter().map(of).sum();
    OverviewResponse {
        of: if whole { "installation" } else { "tenant" }.to_owned(),
        queued: work.queued,
        busy: work.running,
        slots: whole.then(|| slots(workers, LANES[0])),
        oldest_age_s: work.oldest_age_s,
        retrying: work.retrying,
        put_off: work.put_off,
        waiting: work.asking,
        workers: whole.then(|| counts(workers)),
        failed: sum(|hour| hour.failed),
        dead_lettered: sum(|hour| hour.dead_lettered),
        cost_last_hour: cost_last_hour.normalize(),
        capped: is_capped,
        hours,
    }
}

fn counts(workers: &[RegisteredWorker]) -> WorkerCounts {
    let count = |wanted: &str| {
        let found = workers.iter().filter(|worker| worker.status == wanted).count();
        i64::try_from(found).unwrap_or(i64::MAX)
    };
    WorkerCounts { alive: count("alive"), draining: count("draining") }
}

/// The hours of all cells together.
fn hours(all: &[Ended]) -> Vec<EndedInHour> {
    let mut hours: BTreeMap<Time, EndedInHour> = BTreeMap::new();
    for EndedInHour { hour, finished, failed, dead_lettered, cancelled, stopped } in
        all.iter().flat_map(|ended| ended.hours.iter().cloned())
    {
        let sum = hours.entry(hour).or_insert(EndedInHour { hour, ..EndedInHour::default() });
        sum.finished += finished;
        sum.failed += failed;
        sum.dead_lettered += dead_lettered;
        sum.cancelled += cancelled;
        sum.stopped += stopped;
    }
    hours.into_values().collect()
}

/// How the runs of the caller's tenant, or of all (`whole`), have ended, by cell.
async fn ended(ctx: &Ctx, whole: bool) -> Result<Arc<[Ended]>> {
    let tenant = (!whole).then(|| ctx.caller.tenant());
    if let Some(fresh) = ctx.ended.get(tenant) {
        return Ok(fresh);
    }
    let ask = |cell: Arc<App>| async move {
        Ok(match tenant {
            None => cell.api_store().ended().await?,
            Some(_) => cell.store(ctx.caller).ended().await?,
        })
    };
    let (all, missing) = across(ctx, ask).await?;
    let all: Arc<[Ended]> = all.into();
    // Without one of the cells it is not worth remembering.
    if missing.0.is_empty() {
        ctx.ended.keep(tenant, &all);
    }
    Ok(all)
}
