//! `GET /v1/sessions/{id}/history`: the entries of a session, oldest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::SessionId;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::history::list::Shown;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Id;
use crate::query::Query;
use crate::state::App;

pub(crate) async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<SessionId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.position(List::History)?.unwrap_or(0));
    let session = app.store().session(caller.tenant, id).await?;
    let entries = app.store().session_history(caller.tenant, &session, after, rows(limit)).await?;
    Ok(Json(Page::of(List::History, limit, entries, |row| row.position, Shown::from)))
}
