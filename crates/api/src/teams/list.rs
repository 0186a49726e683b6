//! `GET /v1/teams`: newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::team::Team;

use super::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Teams)?.map(Into::into));
    let teams = app.store().teams(caller.tenant, None, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Teams, limit, teams, |team: &Team| team.id.0.as_u128(), Shown::from)))
}
