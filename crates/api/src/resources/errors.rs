//! `GET /v1/errors?hours=24`: the causes for which runs failed, the most frequent first.

use houston_domain::error_group::grouped;
use houston_protocol::error_group::ErrorGroupsResponse;
use houston_store::run_error::MOST;

use crate::request::prelude::*;
use crate::request::query::Window;

endpoints! {
    get "/v1/errors" for TENANT.all(Scope::Operate) => list,
    "list_errors" in "operate": "List why runs failed, with runs of the same cause together.",
    description = "Of the latest 10,000 failed runs, runs that were given up (dead letters), and runs that are retried; at most 200 \
                   groups. `GET /v1/runs?fingerprint=…` lists the runs of a group, `POST /v1/runs/retry` tries them again. \
                   Texts are for keys with the scope `read` besides `operate`.",
    params(("hours" = Option<u32>, Query, minimum = 1, maximum = 744, description = "Only runs that failed within so many hours; 24 by default.")),
    200 "The groups, the largest first." [ErrorGroupsResponse];
}

/// The most groups of an answer.
const MAX_GROUPS: usize = 200;

async fn list(ctx: Ctx, Query(window): Query<Window>) -> Result<impl IntoResponse> {
    let (window_h, window) = window.hours()?;
    let ask = |cell: Arc<App>| async move { Ok(cell.store(ctx.caller).failures(window).await?) };
    let (found, missing) = across(&ctx, ask).await?;
    let capped = found.iter().any(|found| i64::try_from(found.len()).is_ok_and(|count| count >= MOST));
    let failures: Vec<_> = found.into_iter().flatten().collect();
    // Up to some MB of text.
    let groups = ctx.offload.compute(move || grouped(failures)).await?;
    let mut data: Vec<_> = groups.into_iter().take(MAX_GROUPS).collect();
    if !ctx.caller.reads_contents() {
        data.iter_mut().for_each(|group| group.message.clear());
    }
    Ok((missing, Json(ErrorGroupsResponse { data, window_h, capped })))
}
