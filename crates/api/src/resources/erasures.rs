//! `/v1/erasures`: the audit records of erased users and agentables, with their progress. Each DELETE creates one; it is
//! kept and has no content of what was erased.

use axum::http::header;
use houston_domain::id::ErasureId;
use houston_store::erasure::Target;

use crate::request::prelude::*;

endpoints! {
    get "/v1/erasures" for TENANT => list,
    "list_erasures" in "erasures": "List the erasures of the tenant, newest first.",
    params(Paged),
    200 "A page of erasures." [Page<houston_domain::erasure::Erasure>];

    get "/v1/erasures/{id}" for TENANT =>
        async |ctx: Ctx, Id(id): Id<ErasureId>| found(ctx.store().erasure(id).await),
    "get_erasure" in "erasures": "Get an erasure and its progress.",
    200 "The erasure." [houston_domain::erasure::Erasure];
}

async fn list(ctx: Ctx, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(List::Erasures)?.map(Into::into));
    let erasures = ctx.store().erasures(before, rows(limit)).await?;
    Ok(Json(Page::of(List::Erasures, limit, erasures, |row| row.id.0.as_u128(), |row| row)))
}

/// Requests the erasure of `target` and returns 202 with the erasure; the same erasure if it was requested before.
pub(crate) async fn request(ctx: &Ctx, target: Target<'_>) -> Result<Response> {
    let id = ctx.state.ids.beside(target.id());
    let requested = ctx.store().request_erasure(target, id, Some(ctx.caller.key())).await?;
    for agentable in requested.agentables {
        ctx.forget(agentable);
    }
    for (agentable, run) in requested.stopped {
        ctx.publish_cancel(agentable, run);
    }
    let location = [(header::LOCATION, format!("/v1/erasures/{}", requested.erasure.id))];
    let body = Json(requested.erasure);
    Ok((StatusCode::ACCEPTED, location, body).into_response())
}
