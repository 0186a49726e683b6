//! `GET /v1/teams`: the teams of the tenant, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::team::Team;

use super::response;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/teams" => list,
    tag = "teams",
    operation_id = "list_teams",
    summary = "List the teams of the tenant, newest first.",
    params(
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of teams.", body = houston_protocol::page::Page<houston_protocol::team::TeamResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Teams)?.map(Into::into));
    let teams = app.store(caller).teams(None, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Teams, limit, teams, |team: &Team| team.id.0.as_u128(), response)))
}
