//! `GET /v1/{kinds}/{id}/runs?status=`: the runs of an agentable, newest first, optionally filtered by status.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::run::RunStatus;
use serde::Deserialize;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::runs::response;
use crate::state::App;

/// The query: page parameters and a status.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/{kinds}/{id}/runs" => list,
    tag = "runs",
    operation_id = "list_runs",
    summary = "List the runs of an agentable, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("status" = Option<houston_protocol::schema::RunStatus>, Query, description = "Only runs with this status."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of runs.", body = houston_protocol::page::Page<houston_protocol::run::RunResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(Filter { status, limit, cursor }): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let status = status.as_deref().map(parse_status).transpose()?;
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.position(List::Runs)?);
    app.confirm(caller, &path).await?;
    let runs = app.store(caller).runs(path.id, status, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Runs, limit, runs, |run| run.first_seq, response)))
}

fn parse_status(status: &str) -> Result<RunStatus, ApiError> {
    RunStatus::from_name(status).ok_or_else(|| {
        let allowed: Vec<&str> = RunStatus::ALL.into_iter().map(RunStatus::as_str).collect();
        ApiError::parameter("status", format!("no run has this status; allowed: {}", allowed.join(", ")))
    })
}
