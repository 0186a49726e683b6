//! `GET /v1/{kinds}/{id}/sessions`: closed sessions, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Place;
use crate::query::Query;
use crate::sessions::Shown;
use crate::state::App;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.position(List::Sessions)?);
    app.confirm(caller, &place).await?;
    let sessions = app.store().sessions(caller.tenant, place.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Sessions, limit, sessions, |row| i64::from(row.number), Shown::from)))
}
