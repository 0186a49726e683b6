//! What models read of a conversation, for debugging; it is not part of the thread: the history (`/v1/{kinds}/{id}/history`),
//! whose end is the open session; closed sessions (`/v1/sessions`), each with its summary; and compressions, i.e. summaries that
//! replace the beginning of a long conversation in what the model is sent.

use houston_domain::id::{CompressionId, SessionId};
use houston_protocol::session::HistoryEntryResponse;
use houston_store::history::StoredEntry;

use crate::request::prelude::*;

endpoints! {
    get "/v1/sessions/{id}" for ROW.unshown() =>
        async |ctx: Ctx, Id(id): Id<SessionId>| found(ctx.store().session(id).await),
    "get_session" in "sessions": "Get a closed session.",
    200 "The session." [houston_domain::session::Session];

    get "/v1/sessions/{id}/history" for ROW.unshown() => history,
    "list_session_history" in "sessions": "List the history entries of a closed session, oldest first.",
    params(Paged),
    200 "A page of entries." [Page<houston_protocol::session::HistoryEntryResponse>];

    get "/v1/{kinds}/{id}/history" for AGENTABLE.unshown() => list_history,
    "list_history" in "sessions": "List the entries of the history, oldest first.",
    params(Paged),
    200 "A page of entries." [Page<HistoryEntryResponse>];

    get "/v1/{kinds}/{id}/sessions" for AGENTABLE.unshown() => list,
    "list_sessions" in "sessions": "List the closed sessions of an agentable, newest first.",
    params(Paged),
    200 "A page of sessions." [Page<houston_domain::session::Session>];

    get "/v1/{kinds}/{id}/compressions" for AGENTABLE.unshown() => list_compressions,
    "list_compressions" in "sessions": "List the compressions of an agentable's history, newest first.",
    params(Paged),
    200 "A page of compressions." [Page<houston_domain::compression::Compression>];
}

async fn list(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, from) = (query.limit()?, query.position(List::Sessions)?);
    ctx.confirm(&path).await?;
    let rows = ctx.store().sessions(path.id, from, rows(limit)).await?;
    Ok(Json(Page::of(List::Sessions, limit, rows, |row| i64::from(row.number), |row| row)))
}

async fn history(ctx: Ctx, Id(id): Id<SessionId>, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, after) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    let session = ctx.store().session(id).await?;
    let entries = ctx.store().session_history(&session, after, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, entries, |row| row.position, entry_response)))
}

/// The response for a history entry.
fn entry_response(placed: StoredEntry) -> HistoryEntryResponse {
    HistoryEntryResponse {
        position: placed.position,
        run_id: placed.run,
        role: placed.entry.role,
        content: placed.entry.content,
        created_at: Time(placed.created_at),
    }
}

async fn list_history(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, from) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    ctx.confirm(&path).await?;
    let rows = ctx.store().history(path.id, from, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, rows, |row| row.position, entry_response)))
}

async fn list_compressions(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, from) = (query.limit()?, query.id(List::Compressions)?.map(CompressionId));
    ctx.confirm(&path).await?;
    let rows = ctx.store().compressions(path.id, from, rows(limit)).await?;
    Ok(Json(Page::of(List::Compressions, limit, rows, |row| row.id.0.as_u128(), |row| row)))
}
