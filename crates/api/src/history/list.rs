//! `GET /v1/{kinds}/{id}/history`: entries, oldest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::history::{Block, Role};
use houston_domain::id::RunId;
use houston_store::history::PlacedEntry;
use serde::Serialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Place;
use crate::query::Query;
use crate::rfc3339::Time;
use crate::state::App;

#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    position: i64,
    run_id: RunId,
    role: Role,
    content: Vec<Block>,
    created_at: Time,
}

impl From<PlacedEntry> for Shown {
    fn from(placed: PlacedEntry) -> Self {
        Self {
            position: placed.position,
            run_id: placed.run,
            role: placed.entry.role,
            content: placed.entry.content,
            created_at: Time(placed.created_at),
        }
    }
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    app.confirm(caller, &place).await?;
    let entries = app.store().history(caller.tenant, place.id, after, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, entries, |row| row.position, Shown::from)))
}
