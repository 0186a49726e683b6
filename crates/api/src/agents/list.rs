//! `GET /v1/agents`: newest first, the default ones among them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::agent::Agent;

use super::{Shown, ensure_defaults};
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
    let (limit, before) = (query.limit()?, query.id(List::Agents)?.map(Into::into));
    ensure_defaults(&app, caller.tenant).await?;
    let agents = app.store().agents(caller.tenant, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Agents, limit, agents, |agent: &Agent| agent.id.0.as_u128(), Shown::from)))
}
