//! `/v1/workers`: the worker processes of the installation, for keys with the scope `installation`.

use houston_domain::id::WorkerId;
use houston_protocol::worker::WorkersResponse;

use crate::request::prelude::*;

endpoints! {
    get "/v1/workers" for INSTALLATION => list,
    "list_workers" in "operate": "List the workers of the installation, at most 1,000.",
    description = "Needs the scope `installation` besides `operate`.",
    200 "The registered workers, the oldest first." [WorkersResponse];

    post "/v1/workers/{id}/drain" for INSTALLATION => drain,
    "drain_worker" in "operate": "Ask a worker to drain.",
    description = "As after SIGTERM, its process claims nothing new, its runs finish their step or are handed over, and it ends within \
                   the drain time (`worker.drain_s`); that of `houston dev` goes on as a server. It reads the request within a second. \
                   Idempotent; it cannot be taken back. Needs the scope `installation` besides `operate`.",
    202 "The worker was asked, now or before." [houston_protocol::worker::WorkerResponse];
}

async fn list(ctx: Ctx) -> Result<impl IntoResponse> {
    let ask = |cell: Arc<App>| async move { Ok(cell.api_store().list_workers().await?) };
    let (found, missing) = across(&ctx, ask).await?;
    let data = found.into_iter().flatten().collect();
    Ok((missing, Json(WorkersResponse { data })))
}

async fn drain(ctx: Ctx, Id(id): Id<WorkerId>) -> Result<impl IntoResponse> {
    const NOT_FOUND: ApiError = ApiError::NotFound("worker");
    for cell in ctx.all_cells() {
        if if_found(cell.api_store().drain_worker(id).await)?.is_some() {
            let workers = cell.api_store().list_workers().await?;
            let found = workers.into_iter().find(|worker| worker.id == id).ok_or(NOT_FOUND)?;
            return Ok((StatusCode::ACCEPTED, Json(found)));
        }
    }
    Err(NOT_FOUND)
}
