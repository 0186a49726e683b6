//! Check-ins: times at which an agent is woken, set by the agent itself or over REST.

use houston_domain::check_in::{CheckIn, CheckInRequest, MAX_REASON_BYTES, Moment};
use houston_domain::id::CheckInId;
use houston_domain::mode::Mode;
use houston_protocol::check_in::CreateCheckIn;
use houston_protocol::problem::ProblemCode;
use houston_store::rate::Whose;

use crate::error::with_article;
use crate::request::prelude::*;
use crate::request::rates::ask;

endpoints! {
    // 404 once it has started.
    delete "/v1/check-ins/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<CheckInId>| gone(ctx.store().cancel_check_in(id).await),
    "delete_check_in" in "check-ins": "Delete a check-in that has not started yet.",
    204 "The check-in is deleted.";

    get "/v1/{kinds}/{id}/check-ins" for AGENTABLE => list,
    "list_check_ins" in "check-ins": "List the check-ins that have not started yet, newest first.",
    params(Paged),
    200 "A page of check-ins." [Page<CheckIn>];

    post "/v1/{kinds}/{id}/check-ins" for AGENTABLE => create,
    "create_check_in" in "check-ins": "Schedule a check-in: wake the agent once, at a time or after some minutes.",
    params(Keyed),
    body [CreateCheckIn],
    201 "The new check-in." [CheckIn],
    409 "`no_check_ins`: the kind has none; `archived`: the agentable is archived; `full`: too many are scheduled.",
    429 "`rate_limited`: the user sends too many requests.";
}

async fn list(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, from) = (query.limit()?, query.id(List::CheckIns)?.map(Into::into));
    ctx.confirm(&path).await?;
    let rows = ctx.store().check_ins(path.id, from, rows(limit)).await?;
    Ok(Json(Page::of(List::CheckIns, limit, rows, |row| row.id.0.as_u128(), |row| row)))
}

async fn create(ctx: Ctx, path: AgentablePath, request: Creation<CreateCheckIn>) -> Result<Response> {
    let Creation { value: CreateCheckIn { at, in_minutes, reason }, key } = request;
    check_bytes("/reason", &reason, MAX_REASON_BYTES)?;
    ensure!(!reason.trim().is_empty(), ApiError::field("/reason", "must not be empty"));
    let pointer = if in_minutes.is_some() && at.is_none() { "/in_minutes" } else { "/at" };
    let when =
        Moment::parse(at.as_deref(), in_minutes).map_err(|unclear| ApiError::field(pointer, unclear))?;
    ctx.confirm(&path).await?;
    let wakes =
        ctx.state.agent_types.get(&path.kind).is_some_and(|kind| kind.modes.contains(&Mode::AgentCheckIn));
    if !wakes {
        let kind = with_article(&path.kind);
        let why =
            format!("{kind} has no check-ins; only kinds with `modes = [\"agent_check_in\"]` have them");
        return Err(ApiError::Refused(ProblemCode::NoCheckIns, why));
    }
    ask(&ctx, Whose::Agentable(path.id), key.as_ref()).await?;
    let (id, wanted) = (ctx.state.ids.beside(path.id), CheckInRequest { when, reason });
    let body = |set: &CheckIn| stored_body(set);
    let key = key.as_ref().map(Key::as_stored);
    let limits = &ctx.state.check_ins;
    let set = ctx.store().set_check_in((path.id, &path.kind), (id, &wanted), limits, key, body);
    let set = set.await.map_err(|error| match error {
        houston_store::Error::InvalidMoment(invalid) => ApiError::field(pointer, invalid),
        houston_store::Error::Archived => ApiError::Archived(path.public_id()),
        error => error.into(),
    })?;
    created(unless_key_reused(set)?, "/v1/check-ins")
}
