//! `GET /v1/agents`: all agents of the tenant, default agents included, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::agent::Agent;

use super::{ensure_defaults, response};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/agents" => list,
    tag = "agents",
    operation_id = "list_agents",
    summary = "List the agents of the tenant, default agents included, newest first.",
    params(
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of agents.", body = houston_protocol::page::Page<houston_protocol::agent::AgentResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Agents)?.map(Into::into));
    ensure_defaults(&app, caller).await?;
    let agents = app.store(caller).agents(before, rows(limit)).await?;
    Ok(Json(Page::of(List::Agents, limit, agents, |agent: &Agent| agent.id.0.as_u128(), response)))
}
