//! `GET /v1/{kinds}/{id}/compressions`: newest first, each with what it changed in what the model is sent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::CompressionId;
use houston_protocol::schema;
use houston_protocol::session::CompressionResponse;
use houston_protocol::time::Time;
use houston_store::compression::Compression;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::agentable_path::AgentablePath;
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
    summary = "Compressions, newest first",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Items of the page; 20, if not given."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")
    ),
    responses(
        (status = 200, description = "A page of compressions", body = houston_protocol::page::Page<CompressionResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Compressions)?.map(CompressionId));
    app.confirm(caller, &place).await?;
    let found = app.store().compressions(caller.tenant, place.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Compressions, limit, found, |row| row.id.0.as_u128(), response)))
}
