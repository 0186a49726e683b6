//! `GET /v1/{kinds}/{id}/compressions`: compressions, newest first, each with entries and tokens before and after.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::CompressionId;
use houston_protocol::schema;
use houston_protocol::session::CompressionResponse;
use houston_protocol::time::Time;
use houston_store::compression::Compression;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

fn response(compression: Compression) -> CompressionResponse {
    let metrics = compression.metrics;
    CompressionResponse {
        id: compression.id,
        run_id: compression.run,
        session_position: compression.session_position,
        through_position: compression.through_position,
        summary: compression.summary,
        reason: compression.reason,
        entries_before: metrics.entries_before,
        entries_after: metrics.entries_after,
        tokens_before: metrics.tokens_before,
        tokens_after: metrics.tokens_after,
        model: compression.model,
        cost: compression.cost.map(|cost| cost.normalize()),
        created_at: Time(compression.created_at),
    }
}

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/compressions",
    tag = "sessions",
    operation_id = "list_compressions",
    summary = "List the compressions of an agentable's history, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of compressions.", body = houston_protocol::page::Page<CompressionResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Compressions)?.map(CompressionId));
    app.confirm(caller, &path).await?;
    let found = app.store(caller).compressions(path.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Compressions, limit, found, |row| row.id.0.as_u128(), response)))
}
