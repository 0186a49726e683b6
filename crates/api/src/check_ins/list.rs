//! `GET /v1/{kinds}/{id}/check-ins`: those that wait, the latest that was set first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::auth::Caller;
use crate::check_ins::Shown;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Place;
use crate::query::Query;
use crate::state::App;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::CheckIns)?.map(Into::into));
    app.confirm(caller, &place).await?;
    let check_ins = app.store().check_ins(caller.tenant, place.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::CheckIns, limit, check_ins, |row| row.id.0.as_u128(), Shown::from)))
}
