//! `GET /v1/{kinds}/{id}/compressions`: newest first, each with what it changed in what the model is sent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{CompressionId, RunId};
use houston_store::compression::Compression;
use rust_decimal::Decimal;
use serde::Serialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Place;
use crate::query::Query;
use crate::rfc3339::Time;
use crate::state::App;

#[derive(Debug, Serialize)]
struct Shown {
    id: CompressionId,
    run_id: RunId,
    /// It stands for the entries of the history after the one position, up to the other.
    session_position: i64,
    through_position: i64,
    summary: String,
    reason: String,
    entries_before: usize,
    entries_after: usize,
    tokens_before: u64,
    tokens_after: u64,
    /// Null: nobody wrote it, it is an extract.
    model: Option<String>,
    /// Null when nobody knows.
    cost: Option<Decimal>,
    created_at: Time,
}

impl From<Compression> for Shown {
    fn from(compression: Compression) -> Self {
        let metrics = compression.metrics;
        Self {
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
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Compressions)?.map(CompressionId));
    app.confirm(caller, &place).await?;
    let found = app.store().compressions(caller.tenant, place.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Compressions, limit, found, |row| row.id.0.as_u128(), Shown::from)))
}
